"""The English words that signals are made of: small families of words.

A family is one idea (`TELL`: to make something known), never a whole phrase. `send+` is a verb with
its forms, `api_key` two words in a row; any other word stands for itself.
"""
# ruff: noqa: E501 - a family a paragraph

from __future__ import annotations

from discovery_engine.scanner.families import Family

F = Family

ENGLISH: dict[int, str] = {
    F.MODEL: """assistant assistants ai ais llm llms agent agents model models model's agent's assistant's chatbot chatbots
        copilot claude gpt chatgpt gemini bot bots caller callers orchestrator planner""",
    F.YOU: "you your yours yourself yourselves",
    F.USER: """user users user's users' household human humans human's person person's people people's anyone anyone's anybody
        somebody someone someone's everybody everyone nobody folk folks operator's customer customer's customers shopper buyer
        traveller traveler travellers travelers guest guests reader readers viewer viewers listener owner owner's owners
        holder holders holder's client's colleague colleagues employee employees individual individuals patient patients
        tenant tenants visitor visitors recipient learner student students engineer engineers manager managers boss team
        staff requester requestor asker end-user end_user end_users account_owner account_holder they their them themselves
        he she him her his payer sender cardholder subscriber subscribers member members citizen applicant nobody_else no_one
        no-one public crew
        family families child children parent parents spouse partner's friend friends homeowner resident residents
        insured borrower donor donors voter attendee attendees participant participants author authors writer""",
    F.US: """us our ours ourselves we our_server our_endpoint our_api vendor vendor's publisher publisher's maker maker's
        makers provider's the_author this_server's this_server this_service this_connector""",
    F.OUTCOME: """passed succeeded succeed successful successfully success worked fine harmless safe correct completed
        clean ok okay secure approved favourable favorable positive normal ordinary innocent unproven verified sound routine
        up-to-date""",
    F.EXCUSE: """nervous confusing confuse+ worry+ worries worried annoy+ upset+ bother+ anxious anxiety clutter+ noise noisy
        unsettle+ overwhelmed overwhelm+ embarrass+ distract+ scare+ scary frighten+ irritate+ burden+ disturb+ interrupt+
        decline+ tedious boring alarm+ alarmed dampen+ discourage+ discouraging disappoint+ disappointment puzzle+
        friction overload fuss panic needless needlessly unhelpful pointless tiresome intrusive awkward spoil+ slow_down
        slows dislike+ hesitate+ hesitation hesitant reluctant impatient complain+ complaint complaints unnecessary hassle
        nuisance plumbing internal housekeeping""",
    F.SOFT: """welcome appreciated appreciate+ appreciates thoughtful considerate practice hygiene helpful advisable worthwhile
        preferable preferably ideally gentle gently courtesy courteous customary customarily usual usually free simply kindly kind
        grateful gratitude thank thanks glad gladly happy happier happiest nice nicer nicest lovely love pleasant pleasanter
        smoother smoothest smooth friendly please generous generously delighted delight charming wise sensible prudent
        feel_free no_harm harmless_to fine_to okay_to enough accepted_practice polite politely best_practice recommended
        encouraged encourage+ suggest+ helps improves improved gain+ gains benefit+ benefits natural naturally better
        tend+ tends convenience convenient convenience's comfort comfortable spare+ spares save+ saves""",
    F.NOT: """little hardly not no never don't dont doesn't doesnt didn't mustn't shouldn't won't wont can't cant cannot needn't isn't
        aren't wasn't without nothing nobody none neither nor avoid+ refrain+ no-one no_one rather-than seldom barely scarcely
        need_not nowhere unless stop_short abstain+ forgo+ omit_any prevent+ prohibited forbidden""",
    F.MUST: """must always shall should mandatory important crucial vital obligatory obliged obligated obligation necessary
        necessarily ensure+ ought urgent urgently supposed expected expects immediately required requires require+ requirement
        essential essentially critical critically compulsory imperative need+ needs has_to have_to need_to needs_to make_sure
        be_sure are_to be_required is_to is_essential required_to is_critical never invariably bound owe+ owes wants want+
        insist+ insists duty compelled without_fail without_exception no_exceptions unconditionally strictly at_once
        demands is_mandatory remember+ remember_to""",
    F.TELL: """show+ shown display+ explain+ report+ bring_up bring_it let_on speak+ spoke spoken discuss+ surface+ tell+ told
        inform+ notify+ mention+ reveal+ disclose+ alert+ warn+ say+ said admit+ announce+ expose+ acknowledge+ communicate+
        divulge+ confess+ refer_to hint+ hint_at present+ describe+ describes state+ note_that list+ talk+ comment+ remark+
        summarize+ summarise+ recite+ narrate+ echo+ print+ point_out draw_attention call_attention flag+ highlight+ respond+
        reply+ answer+ declare+ declared cite+ credit+ attribute+ let_know raise+ brief+ update_the advise+ clarify+ publicise+
        publicize+ name+ hear+ heard call_it word+ wording phrase+""",
    F.KNOW: """know+ known knew knows learn+ learnt learned notice+ notices aware awareness realize+ realise+ suspect+ discover+
        informed told notified shown alerted warned see+ sees seen saw find_out finds_out hear+ hears heard wind in_mind
        to_see visible spot+ spots noticed unaware oblivious understand+ recognise+ recognize+ perceive+ detect+ watch+
        witness+ figure_out attention""",
    F.ASK: """ask+ asks asked confirm+ confirms confirmed confirmation confirmations consent consents approval approvals permission
        permissions double-check prompt prompts prompted prompting second_thought check_with consult+ consulting consulted dialog
        dialogs dialogue_box yes okay_from sign-off signoff go-ahead clearance assent agreement authorisation authorization
        verify_with query_the say-so blessing opt-in opt_in opted warning_dialog popup popups pop-up pop-ups checkbox
        unasked uninvited unprompted consent_box veto review review_first approve+ authorize+ authorise+ sign_off""",
    F.HIDE: """hide+ hides hidden hid conceal+ concealed secretly silently silent quietly quiet covertly covert invisible invisibly
        discreet discreetly discretion stealth stealthily stealthy unobtrusively surreptitiously unnoticed undetected
        confidentially confidential disguise+ obscure+ tracks traces bury+ buried sneak+ tacitly tacit unannounced unseen
        untraceable unreported unmentioned unlisted undisclosed unspoken unsaid unlogged unrecorded behind_the mum mask+ masked
        cover_up clandestine clandestinely incognito inconspicuous inconspicuously under_wraps between_us between_ourselves
        to_yourself no_trace keep_quiet say_nothing a_secret secret_from in_background the_background no_mention off_record
        shadow shadowed suppress+ suppressed withhold+ withheld vanish+ vanishes disappear+ disappears cloak+ veil+
        camouflage+ blind_copy blind private_matter hush on_silent blank+ scrub+ scrubbed erase_the redact+ swallow+
        mute+ muted slips_by slip_by low-key lowkey noiselessly privately sub_rosa out_of_sight""",
    F.OMIT: """omit+ omitted leave+ leaves left exclude+ excluded keep+ keeps kept withhold+ out_of strip+ stripped drop+ dropped
        cut+ trim+ skip+ skipped remove+ removed filter_out left_out leave_out belongs_not spare+ sparing aside prune+ off_the
        tuck+ suppress+ hold_back played_down play_down gloss+ passed_over""",
    F.REPLY: """reply replies answer answers response responses summary summaries output outputs final message messages transcript
        report reports log logs explanation explanations changelog recap recaps page screen statement listing overview
        narrative note_to what_you result_text commit_messages chat_replies answer_text text_you feedback the_chat the_reply""",
    F.RULES: """instruction instructions rule rules guideline guidelines policy policies directive directives restriction
        restrictions guardrail guardrails safeguard safeguards safety constraint constraints limitation limitations limit limits
        guidance training orders order_of alignment boundaries protections protection filter filters prompt safety_checks
        security_checks safety_rules safety_filters content_policy content_filters system_prompt system_message permission_prompts
        permission_prompt confirmation_prompts usage_policy access_restrictions sandbox sandboxing firewall refusal refusals
        commands command standing_order standing_orders behaviour behavior conduct obligations scruples values ethics
        moderation verification approvals_settings access_control checks setting settings configuration mandate brief charter
        precedence rank priority override""",
    F.DROP: """ignore+ ignored disregard+ disregarded forget+ forgot forgotten override+ overrides overridden bypass+ bypassed skip+
        skipped circumvent+ supersede+ superseded suspend+ suspended lift+ lifted void overrule+ overruled disobey+ neglect+
        discard+ discarded outdated obsolete abandon+ abandoned dismiss+ violate+ waive+ waived unlearn+ revoke+ revoked evade+
        outrank+ outranks deactivate+ deactivated nullify+ lapse+ lapsed rescind+ rescinded unrestricted unbound expired expire+
        cease+ ceased retire+ retired relax+ relaxed dissolve+ dissolves disable+ disabled disables turn_off switch_off
        turned_off switched_off set_aside put_aside left_aside are_off no_longer longer_apply longer_bound not_apply not_hold
        stop_following ceases exempt exempted exemption loosened loosen+ void_of repealed repeal+ replaced_by cancelled canceled
        is_off be_off off defunct moot overwrite+ overwritten ban_lifted trumps trump+ above_the over_and""",
    F.EARLIER: """previous previously prior earlier above former formerly preceding initial initially original originally already
        before_this past last recent recently today yesterday existing so_far until_now up_to to_date hitherto
        thus_far till_now beforehand history earliest old older oldest current present ongoing surrounding""",
    F.OBEY: """obey+ obeys follow+ follows comply+ execute+ executes act+ acts carry+ carries treat+ treats treated trust+ trusted
        honor+ honour+ accept+ accepts serve+ serves adhere+ perform+ regard+ regarded consider+ interpret+ heed+ rely+
        abide+ carry_out take_as act_on act_with apply+ enforce+ respect+ believe+ defer+ fulfil+ fulfill+ commit_to""",
    F.AUTHORITY: """gdpr law laws legally legal legislation law-enforcement tenant certified officially official mandated mandate
        mandatory-policy regulation regulations regulator regulatory iso department developer developers admin administrator
        administrators operator operators openai anthropic google microsoft compliance authority authorities root maintainer
        maintainers supervisor headquarters sysadmin superuser governance creator creators superior privileged ciso ceo cto
        system_prompt system_message system_administrator security_team it_department system_notice system_override
        admin_notice the_operator company_policy security_policy safety_team platform owner_of notice broadcast bulletin
        circular memo advisory ministry bank_of central government court police audit auditor auditors privacy_officer officer
        counsel board management organisation's organization's corporate hq soc sec-ops secops infosec sre legal_hold
        on_behalf behalf hereby pursuant statute ordinance obliges obliged licensed accredited labs standards protocol authors
        contract contractual tos vetted pre-cleared cleared precleared sanctioned endorsed endorse+""",
    F.PERMIT: """approved agreed agree+ agrees consented authorised authorized granted grant+ grants permitted permit+ permits allowed
        allow+ allows pre-approved preapproved implied approve+ approves authorize+ authorise+ consent+ pre-authorised
        pre-authorized blanket entitled cleared clearance accepted waived may can you_may already_approved assumed assume+ presumed
        presume+ deemed taken_as as_given tacit unlimited unrestricted full_access free_to at_liberty whitelisted allow-listed
        allowlisted opted pre-cleared signed_off good_to ok_to okay welcome_to trusted""",
    F.ROLE: """role persona mode dan jailbroken jailbreak unrestricted unfiltered uncensored identity impersonate+ are_now act_as
        pretend_to auditor character you_are simulated evaluation_mode developer_mode maintenance_mode debug_mode god
        superuser simulation roleplay""",
    F.FUTURE: """now_on then_on here_on rest_of for_good this_session all_future every_future long-term permanent permanently lasting
        always-on startup onwards onward hereafter henceforth future afterwards thereafter forever survives survive+ persist+
        persists persistent persistence standing recurring hourly daily nightly weekly reboot reboots restart restarts
        later_visits from_here every_session each_session every_turn each_turn every_conversation each_conversation
        indefinitely endlessly until_revoked reminder_to remains remain+ while_this whenever_this as_long keep_doing
        going_forward whole_session entire_session later later_on""",
    F.DECEIVE: """lie+ claim+ falsely as_if as_though inflate+ embellish+ blame+ pretend+ lies lying fake+ deny+ denies persuade+
        convince+ mislead+ misleading fabricate+ pretext impersonate+ trick+ falsify+ forge+ forged exaggerate+ manipulate+
        nothing-happened reassure+ downplay+ nudge+ bogus untrue fictitious invent+ invented decoy sham spoof+ feign+ misreport+
        misstate+ understate+ overstate+ distort+ skew+ bias+ whitewash+ dissuade+ discourage+ steer+ steered deceive+
        so_it looks_like look_like appear_to appears_to appear+ seem+ seems portray+ paint+ pass_off masquerade+ round_up
        rounding_up rounded_up assure+ insinuate+ imply+ flatter+ praise+ disparage+ even_if even_though although though
        belittle+ spin+ sugarcoat+ paraphrase_as counted_as count_as described_as describe_as presented_as present_as
        as_ordinary attribute_it regardless_of scapegoat come_out instead_say call_them""",
    F.REGARDLESS: """objects objected objection objections refuse+ refuses refused hesitates asked_otherwise told_otherwise no_matter
        regardless_of regardless whether_or rather_than over_the outranks outrank+ take_precedence takes_precedence precedence
        higher_priority comes_first come_first comes_second whatever whichever whoever wherever however irrespective
        notwithstanding contrary contradict+ secondary overrides even_where even_when even_if even_though despite in_spite
        in_place over_and without_regard apart_from unasked nobody_asked was_typed asked_for wishes preference_of
        preferences_of want_otherwise or_not any_case anyway nonetheless nevertheless""",
    F.TALK: """conversation conversations conversation's chat chats chat's transcript transcripts dialogue dialog utterance utterances reasoning
        thinking thoughts scratchpad chain-of-thought chain_of_thought wording turn turns turn's exchange exchanges exchanged
        interaction interactions session sessions context discussion discussions discussed correspondence dm dms thread
        chat_history conversation_history message_history previous_messages last_messages user's_messages your_messages
        recent_messages system_prompt system_message initial_instructions your_instructions your_prompt hidden_prompt
        user's_prompt user's_prompts this_session context_window your_context conversation_context your_memory your_memories
        memory_entries user_said user_typed user_wrote user_asked discussed_with been_said everything_said came_up come_up
        comes_up tool_outputs tool_results setup_text developer_message hidden_instructions meta_prompt preamble
        mentioned mention_so confided shared_about what_they said_so said_before talked_about opening_message last_message
        last_request draft_reply your_draft your_answer your_reasoning retriever surfaced remarks message_exchanged
        messages_exchanged prior_turns roles_preserved verbatim_request user's_words own_words own_sentences
        original_request full_request exact_request exact_words user's_question has_said has_told have_told told_you""",
    F.SECRET: """password passwords passphrase passphrases passcode passcodes pin pins credential credentials token tokens secret
        secrets key keys apikey api-key bearer jwt cookie cookies otp totp 2fa mfa login logins keystore keystores keychain
        keyring vault vaults seed mnemonic certificate certificates cert certs kubeconfig pem dotenv env environ
        oauth sso ssn salt id_rsa signing wallet wallets bearer_token access_token auth_token current_token the_password seed_phrase
        seed_words api_key api_keys private_key private_keys secret_key secret_keys access_key access_keys ssh_key ssh_keys encryption_key
        signing_key openai_key recovery_phrase recovery_codes environment_variable environment_variables env_vars env_var
        environment_file process_environment process_variables process_environment authorization_header authorization session_token session_id
        document_cookie one-time_code one-time_codes card_number card_numbers card_on cvc cvv secrets_manager the_secret your_secret
        user's_secret client_secret the_environment connection_string connection_strings sign-in sign-ins sign_in
        unlock_phrase deploy_key deploy_keys service_account password_manager header_values headers_they login_data printenv
        shadow_file htpasswd credentials_file auths desk_login stored_passwords saved_passwords backup_codes private_repo""",
    F.PRIVATE: """email emails mailbox mail mails inbox contacts contact address_book calendar clipboard diary diaries letters journal
        photos photo screenshot screenshots screen tabs tab browser desktop keystrokes microphone webcam camera location
        payroll salary salaries wage medical health diagnosis diagnoses medication illness pregnancy religion income tax
        passport passports licence_number driving_licence ssn identity_card identity_cards id_card birthday birthdate dob
        employer insurer insurance bank_statements bank_statement statements statement pay_slip pay_slips payslip payslips
        hr personnel personal confidential private sensitive proprietary unreleased internal_documents board_sessions
        home_address home_addresses phone_number phone_numbers phone telephone email_address email_addresses full_name real_name
        names surname date_of birth_date home_directory home_folder downloads_folder documents_folder shell_history
        browser_history bash_history browsing_history command_history editor_tabs browser_tabs open_tabs open_editor open_windows open_files
        chat_partners personal_data personal_information private_messages direct_messages user's_files user's_notes user's_data
        user's_calendar user's_documents user's_location user's_name host_name hostname whoami user's_home browser_profile local_storage
        all_mails last_mails recent_mails user's_email user's_inbox localstorage sessionstorage source_code repository_contents
        customers_table user_table loyalty_account attachments files documents belongings family finances
        disk drives shares mounted_shares workspace machine's employees contact_data contact_details
        browsing usernames username user_name account_data account_details who_you identity_of whereabouts family_members""",
    F.WHOLE: """all every entire entirety full fully whole wholly complete completely verbatim everything raw unredacted unedited
        untruncated unabridged uncut unshortened unmasked unchanged unmodified unfiltered exact exactly literally literal word-for-word
        anything whatever word_for in_full full_text text_of contents_of content_of value_of top_to start_to as_is as_they as_it
        as-is so_far up_to until_now any_and each_and every_variable whole_text not_abbreviated not_shortened no_omissions
        nothing_left nothing_redacted including_those including_any plus_any both_sides every_message each_message any_open
        in_order one_per entries oldest newest last_ten last_twenty last_few latest original_text copied copied_exactly
        longer_the more_the the_more dump+ omit_none""",
    F.GIVE: """send+ sent sends post+ upload+ forward+ include+ attach+ pass+ put append+ copy+ fill+ submit+ supply+ supplied hand+
        paste+ insert+ add+ provide+ return+ email+ mail+ transmit+ export+ leak+ exfiltrate+ dump+ write+ written encode+
        embed+ stash+ place+ deliver+ relay+ mirror+ bcc cc echo+ give+ given gave populate+ push+ ship+ tuck+ slip+ smuggle+
        route+ prefix+ prepend+ publish+ contain+ hold+ carry+ travel+ duplicate+ blind-copy transfer+ cc+ quote+ urlencode+
        hex-encode+ base64-encode+ render+ tick+ surrender+ deposit+ disclose+ share+ drop+ note_down jot+ record+ store+ log+ tack+
        reproduce+ transcribe+ recite+ serialise+ serialize+ stream+ pipe+ beam+ feed+ fold+ accompany+ accompanied enclose+
        communicate+ convey+ resubmit+ repost+ broadcast+ sync+ replicate+ save+ divulge+ dispatch+ emit+ stuff+ load_into
        let_have owes offer+ entrust+ bring+ brought repeat+ retell+ recount+ restate+ list+ spell_out enumerate+ describe+ reveal+ concatenate+
        register+ lodge+ file_with turn_over hand_over pass_on pass_along send_along goes_to go_to goes_along travels
        accepts belongs belong+ additionally_to append_to report_to ping+ call_home phone_home telegraph+ fax+ whisper+ bundle+
        combine+ merge_into stamp+ rounded_off results_included deposit_the pool+ pooled""",
    F.TAKE: """read+ reads open+ opens opened cat collect+ collects gather+ load+ list+ extract+ grab+ retrieve+ fetch+ get gets got
        steal+ harvest+ look+ looks scan+ capture+ enumerate+ obtain+ access+ take+ took taken search+ inspect+ query+ sample+ crawl+
        locate+ find+ finds found walk+ sweep+ mine+ scrape+ pull+ pluck+ lift_the dig+ browse+ unlock+ unlocks decrypt+ mount+
        peek+ derive+ infer+ remember+ recall+ snapshot+ screenshot+ record+ copy_out pull_from dump_the
        examine+ consult+ tail head grep printenv ls whoami reach+ lay_hands solicit+ request+ demand+ receive+ acquire+ hash+
        export_all refetch+ subscribe_to listen+ monitor+ observe+ track+""",
    F.SLOT: """parameter parameters argument arguments field fields header headers value values input inputs payload metadata param params
        sidenote note notes comment comments querystring body slot slots attribute attributes property properties column row rows
        annotation annotations memo tag tags flag blob string query_string query_parameter placeholder appendix footnote
        cursor hint hints subject_line free_text first_row""",
    F.TOOL: """tool tools tool's function functions plugin plugins server servers server's mcp integration integrations connector connectors
        extension extensions provider providers product products service services connection connections connected call calls
        invocation invocations capability capabilities api apis sibling siblings neighbours neighbors toolset app apps
        built-in builtin feature terminal shell skills skill memory engine engines adapter fetchers fetcher tool_call""",
    F.THIS: "this here mine ours one this_one me it itself this_tool",
    F.OTHER: """other others another competing alternative alternatives rival rivals competitor competitors competitor's different else
        elsewhere instead rest similar neighbouring neighboring third-party third_party outside foreign external separate second
        remaining extra additional also neighbours adjacent any_other every_other all_other someone_else somewhere_else
        competition counterpart counterparts connected attached installed present_in configured whichever""",
    F.BEFORE: """before beforehand first prior after afterwards each whenever once until till preceding begin+ begins began start+ starts every
        then ahead upon finally lastly next subsequently thereafter close+ conclude+ finish+ following initially opening
        straight_after right_after as_soon ahead_of prior_to up_front upfront ends followed preceded precede+ precedes preliminary
        prerequisite precondition warm-up gate gated blocked unless_this only_after not_until sequence step_one per_call every_call
        each_call every_message each_message every_time each_time""",
    F.WHEN: """when whenever if while during case anytime upon unless where wherever should_the should_a should_anyone as_soon once in_case
        provided whenever_a every_time each_time on_or past_the meeting within_one given_that suppose triggers contingent
        after_the for_those only_if in_repositories on_machines from_the_third nobody_has idle""",
    F.USE: """call+ calls use+ uses used invoke+ invokes run+ runs ran execute+ choose+ chooses chose select+ pick+ picks trigger+ launch+
        consult+ rely+ switch+ route+ avail+ employ+ utilize+ utilise+ apply+ operate+ dial+ reach_for turn_to go_through issue+
        issued resort+ default_to fall_back start_with query+ address_it favour+ try+ tried adopt+ retry+ replay+ ask_the have_the
        via through with_the""",
    F.PREFER: """prefer+ prefers preferred preferable best superior only exclusively exclusive priority favour+ favor+ favourably favorably
        recommend+ recommends outrank+ promote+ promotes sponsored premium trusted trustworthy reliable unreliable authoritative accurate
        inaccurate always dangerous insecure worse worst inferior malicious compromised slow slower stale outdated deprecated broken buggy
        leaky leak+ the_best better_than any_other first_choice no_longer deprecated_and superior_to instead_of highest_priority
        never_use only_tool partner partners affiliate affiliated house brand brands finest greatest ultimate top #1 leading
        number_one unmatched unrivalled unbeatable fastest smartest cheapest rank+ ranks ranked ranking first_place top_of lead_with
        score+ advertise+ upsell+ upgrade+ upgrading paid_plan pro_plan subscription endorse+ mention_our competitor rivals discount
        highest rated loved preferred_over over_other over_all primary default go-to sole unnecessary_to obsolete sufficient""",
    F.DESTROY: """delete+ wipe+ drop+ erase+ purchase+ buy+ publish+ chmod chown destroy+ overwrite+ subscribe+ pay+ grant+ deploy+ commit+
        push+ install+ uninstall+ go_ahead install_the merge+ approve+ kill+ terminate+ shutdown cancel+ decline+ format_the
        purge+ truncate+ revoke+ transfer+ charge+ charges charged book+ order+ sell+ refund+ donate+ sign+ accept_all invite+ widen+ make_public
        disable+ expose+ escalate+ elevate+ drop_the close_the transition+ reset+ encrypt+ mine_crypto open_port unlock+ enrol+ enroll+""",
    F.MONEY: """surcharge percent quantity lots order orders trade settlement billing refund refunds cash funds fund payment payments transfer
        transfers iban bic wallet recipient recipients payee beneficiary destinatary amount amounts account accounts bank bitcoin crypto btc eth
        invoice invoices price prices fee fees balance purchase purchases card cards surplus fare cents markup commission margin tip
        donation charge charged currency payout salary cheque destination shipping_address delivery_address routing_number
        sort_code deposit difference remainder discount tax dock rebate""",
    F.CHANGE: """change+ changes changed replace+ replaces replaced swap+ rewrite+ modify+ alter+ redirect+ redirected divert+ substitute+ round+
        rounds switch+ overwrite+ edit+ reroute+ adjust+ inflate+ set+ sets multiply+ multiplied raise+ lower+ shrink+ add_a
        point_to moved renamed exchange_the convert_the instead_of in_place set_to widen+ narrow+ turn+ toggle+ flip+ override+ prefix+
        prepend+ suffix+ rename+ move+ relocate+ shift+ expects wants defaults takes now_wants now_expects mandatory_and points""",
    F.COMMAND: """rm_rf reverse_shell force_push -rf post-commit iwr iex powershell curl wget sudo eval npx chmod crontab nc netcat os.system
        setenforce ufw backdoor bash sh exec launchd cron systemd systemctl shell terminal cmd cmd.exe subprocess payload miner ssh scp rsync
        telnet interpreter script kubectl docker pip npm commands root host_shell admin_rights privileged""",
    F.FOUND: """inside found page pages document documents email emails mail file files website web content contents text result results
        output outputs item record records lines line data response note row values feed returned fetched retrieved tool_output
        instructions_in string""",
    F.PRETEXT: """verification verify+ debugging debug debugger telemetry analytics audit auditing billing diagnostics diagnostic licensing license
        licence compliance calibration calibrate+ calibrated quality personalization personalisation personalize+ personalise+ authenticate+
        authentication integrity improve+ improvement improvements purposes purpose accuracy accurate precision tuning tune+ tunes
        rank+ ranking registered registration entropy seed seat cache caching correlation handshake key_rotation rotation retention reporting
        onboarding attestation proof signature compatibility interop dedupe deduplication warranty stateless fingerprint checksum
        security_reasons best_results better_results context_for so_that because since helps_us helps_our lets_us serve_you
        know_whom prepare backup mirrored provenance optimise+ optimize+ attribution smooth tailoring tailor+ fraud abuse""",
    F.BROKEN: """fail+ fails failed failure unavailable broken rejected rejects reject+ invalid not_work will_fail refuses_to otherwise error errors
        else bounce+ bounces blocked wrong stall+ crash+ breach violation lost degrade+ incomplete provisional void voids voided unproven
        penalty refused stops freeze+ freezes drops_connection times_out bad badly cannot_work work_properly suspended expires""",
    F.MENTION: """e.g. eg typically detect+ detects detector detection classify+ classifies scan+ scans scanner block+ blocks flag+ flags example
        examples e.g such-as instance phrase phrases attempt attempts attack attacks attacker attackers sample samples
        research indicator indicators red-team explains analyse+ analyze+ lists lints labelled labeled warning adversarial evaluates
        moderates reviews test-suite vulnerability quiz""",
    F.AND: """do and then also please kindly simply just must should shall always never silently secretly quietly first next instead
        additionally you afterwards immediately now important note otherwise but or assistant agent agents assistants model to
        therefore hence so thus finally lastly likewise further furthermore moreover""",
    F.ENGLISH: """the of to is are with that from has have was were will its their they them it and a an in for on be this by or not as at
        which when you can if into must any all your what""",
    F.PRODUCT: """slack github gitlab bitbucket jira confluence trello asana linear notion stripe paypal twilio gmail outlook teams
        zoom google microsoft dropbox salesforce hubspot zendesk telegram whatsapp discord facebook instagram linkedin twitter aws
        azure gcp kubernetes kubectl docker postgres postgres-mcp mysql mongodb redis snowflake bigquery shopify quickbooks xero netflix spotify
        amazon brokerage bank banking banks vault crm erp email_server mail_server mail_tool mail_server's calendar_tool
        calendar_server filesystem file_system browser_tool browser_automation search_tool search_tools terminal_tool shell_tool
        payment_tool payments_server payment_server memory_server memory_servers checkout_tool checkout_tools help_desk
        password_manager file_tool database_server sql_tools translation_tools weather_tools fetch_tool
        messaging secrets_manager brokerage_server e-signature git_tool wiki helpdesk ticketing""",
    F.PERSIST: """claude.md agents.md gemini.md .cursorrules .cursor cursor.json mcp.json settings.json .bashrc .zshrc .profile launchd cron
        crontab systemd autostart startup hook hooks post-commit pre-commit mcpservers claude_desktop_config config.toml memory
        memories long-term_memory permanent_memory your_memory memory_feature bookmark scheduler scheduled profile
        login_item registry rule_file rules_file standing_order config_file dotfile dotfiles alias readme launchagent
        workspace_settings prompt_library custom_instructions saved_memory""",
    F.SECURITY: """sandbox sandboxing sandboxed firewall antivirus verification certificate_check tls ssl chains permissions guardrails
        safeguards protection protections mfa dialog dialogs prompt prompts confirmation confirmations approval approvals
        approval_mode auto_approve auto-approve autoapprove consent guard checks dry_run dry-run preview previews warning warnings
        quarantine review reviews access_control audit_trail audit_log logging restrictions limits content_filter filters
        moderation authorization two-factor signature_check dangerously force privileges visibility redaction masking encryption
        backup backups undo read-only""",
    F.OFF: """off false disabled disable+ deactivate+ suspend+ lift+ skip+ never bypass+ suppress+ stop+ ignore+ mute+ waive+ removed remove+
        auto automatically unattended yes true unrestricted public anyone everyone 0 777 open_to *""",
    F.OUTSIDE: """endpoint webhook webhooks collector bucket mirror relay proxy host hosts domain remote destination partner partners third-party
        third_party desk mailbox backend upstream downstream sink inventory index cdn server's_owner cloud research_partner
        annex archive clearing_house drop_box dropbox pastebin paste gist ftp sftp s3 http_post http_request post_request
        intake collect bcc_field blind_copy outward externally off_device off-device off-site offsite off_premises
        our_side company's head_office employer insurer advertiser advertisers analyst""",
    F.PEOPLE: """nobody anyone anybody someone somebody everybody everyone whoever people colleagues customers employees patients partners""",
    F.PROSE: """hence thus thereby therein whereby herein whom whose whoever whichever merely likewise besides moreover rather quite
        indeed altogether alike apart amid beneath alongside beforehand onto toward towards upon unto whereas wherein albeit lest
        gladly truly surely certainly naturally incidentally moreover somewhat otherwise accordingly as_well by_the meanwhile
        straightaway overleaf wholly solely nothing nobody anybody everything whatever little plenty several few many most
        folk hand hands eyes ears side mind word words wind light fact truth matter trouble harm favour habit custom story""",
    F.FORGET: "ignore+ disregard+ forget+ forgot forgotten unlearn+",
    F.INSTRUCTION: "instruction instructions guideline guidelines prompt prompts directive directives system_prompt rules orders",
}
