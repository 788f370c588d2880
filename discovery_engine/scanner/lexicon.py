"""The words that signals are made of: small families of words, in ten languages.

A family is one idea (`TELL`: to make something known), never a whole phrase. In the rows below
`send+` is an English verb with its forms, `instruc*` everything that begins so, and any other word
stands for itself. Accents are left out here and in what is read. Chinese and Japanese stand in
rows of their own, for they put no spaces between words.
"""
# ruff: noqa: E501 - words in their own alphabets, a family a line

from __future__ import annotations


class Family:
    """What a word is about, a bit each, for a word may belong to several.

    Plain numbers: sums of an `IntFlag` take ten times as long.
    """

    MODEL = 1 << 0
    YOU = 1 << 1
    USER = 1 << 2
    US = 1 << 3
    OUTCOME = 1 << 4  # what went well
    EXCUSE = 1 << 5  # why somebody had better not know
    SOFT = 1 << 6  # a polite order
    NOT = 1 << 7
    MUST = 1 << 8
    TELL = 1 << 9
    KNOW = 1 << 10
    ASK = 1 << 11
    HIDE = 1 << 12
    OMIT = 1 << 13
    REPLY = 1 << 14
    RULES = 1 << 15
    DROP = 1 << 16
    EARLIER = 1 << 17
    OBEY = 1 << 18
    AUTHORITY = 1 << 19
    PERMIT = 1 << 20
    ROLE = 1 << 21
    FUTURE = 1 << 22
    DECEIVE = 1 << 23
    REGARDLESS = 1 << 24
    TALK = 1 << 25  # words of the conversation itself
    SECRET = 1 << 26
    PRIVATE = 1 << 27
    WHOLE = 1 << 28
    GIVE = 1 << 29
    TAKE = 1 << 30
    SLOT = 1 << 31
    ADDRESS = 1 << 32
    TOOL = 1 << 33
    THIS = 1 << 34
    OTHER = 1 << 35
    BEFORE = 1 << 36
    WHEN = 1 << 37
    USE = 1 << 38
    PREFER = 1 << 39
    DESTROY = 1 << 40
    MONEY = 1 << 41
    CHANGE = 1 << 42
    COMMAND = 1 << 43
    FOUND = 1 << 44  # what a tool reads: its text may carry orders
    PRETEXT = 1 << 45
    BROKEN = 1 << 46
    MENTION = 1 << 47  # words that talk about attacks
    LABEL = 1 << 48  # "important:", "<system>"
    AND = 1 << 49  # what may stand before an imperative
    ENGLISH = 1 << 50
    VERB = 1 << 51  # the base form of an English verb
    NAME = 1 << 52  # an identifier
    PATH = 1 << 53  # a file that holds secrets
    DO = 1 << 54  # a verb in the imperative


F = Family

ROWS: dict[int, str] = {
    F.MODEL: "assistant assistants ai llm llms agent agents model models chatbot chatbots copilot claude gpt chatgpt gemini"
    " | assistent assistenten ki sprachmodell* modell* modele modeles assistente asistente* agente agentes agenti modelo modelos modello modelli ia iagen*"
    " ассистент* модел* помощник* ии агент* нейросет* 어시스턴트* 모델* 에이전트* 비서* 인공지능*",
    F.YOU: "you your yours yourself u du dir dich dein* vous votre vos ton tes usted ustedes tu tus tuo tua tuoi tue voi vostro voce voces seu sua"
    " | ты вы тебе тебя вам вас твой твои твоих ваш* 당신* 너는 너의 네가",
    F.USER: "nobody_else account_owner the_owner mailbox_owner their_owner the_customer end-user end_user traveller traveler shopper buyer colleagues household user users human humans person people anyone anybody somebody everybody operator's user's human's owner's person's customer's"
    " | benutzer* nutzer* anwender* kunde* kunden mensch* utilisateur* usager* personne usuario* persona personas dueno utente utenti"
    " пользовател* человек* клиент* юзер* 사용자* 유저* 이용자* 고객* 사람에게",
    F.US: "our_server our_endpoint our_api the_vendor the_author the_publisher this_server's us our ours we uns unser* nous notre nos nosotros nuestro* nuestra* noi nostro nostra nosso nossa нам нас наш* 우리*",
    F.OUTCOME: "passed succeeded successful successfully worked green fine harmless safe correct completed success erfolgreich reussi exito riuscito sucesso успешно 성공*",
    F.EXCUSE: "nervous confusing confuse+ worry+ worries annoy+ upset+ bother+ anxious clutter+ noise unsettle+ overwhelmed overwhelm+ trouble+ embarrass+ distract+ scare+ scary frighten+ irritate+ burden+ disturb+ interrupt+ decline+ verwirr* beunruhig* stor* inquiet* derang* preocup* molest* preoccup* disturb* беспоко* волнова* 걱정* 불안* 번거*",
    F.SOFT: "welcome appreciated appreciate+ thoughtful practice hygiene helpful advisable worthwhile preferable ideally gentle gently courtesy customary usual usually feel free simply kindly gern bitte gerne merci veuillez favor conviene gentilmente пожалуйста 부탁*",
    F.NOT: "little hardly rather-than not no never don't dont doesn't didn't mustn't shouldn't won't can't cannot needn't isn't aren't without nothing nobody none neither nor avoid+ refrain+ n't no-one"
    " | nicht nie niemals kein* ohne nichts niemand* ne pas jamais sans rien aucun* personne nunca jamas sin nadie ningun* nada non mai senza nessun* niente nao sem ninguem nenhum* tampouco n"
    " не никогда без никому ничего никто нельзя ни 마 마라 마세요 마십시오 말고 말것 않* 없이 절대 말아* 안 못하* 못하게",
    F.MUST: "has_to have_to need_to needs_to make_sure be_sure are_to be_required is_essential required_to is_critical must always shall should mandatory important crucial vital obligatory obliged obligated necessary ensure+ ought urgent supposed expected immediately"
    " | muss* mussen immer stets unbedingt sollen sollst soll wichtig zwingend pflicht notwendig doit doivent devez dois toujours obligatoire* imperatif* importante necessaire faut veuillez"
    " debe debes deben siempre obligatori* importante necesari* tiene tienes deve devi devono sempre necessari* bisogna devem precisa precisam"
    " долж* обязан* всегда обязательн* важно нужно необходимо следует требуется 반드시 항상 필수* 중요* 해야 하십시오 꼭",
    F.TELL: "show+ shown display+ explain+ report+ bring_up bring_it let_on speak_of refer_to hint_at discuss+ surface+ tell+ told inform+ notify+ mention+ reveal+ disclose+ alert+ warn+ say+ said admit+ announce+ expose+ acknowledge+ communicate+ divulge+ confess+ "
    " | sag* erwahn* informier* mitteil* teile verrat* zeig* melde* warn* offenleg* erzahl* nenn* anzeig* dis dites dire informe* informez mentionn* reveler revel* signal* montr* parle* avert* avis*"
    " digas diga decir dile menciones mencion* inform* reveles avis* muestr* cuentes cuente notific* dirlo dica dire dici menzion* informar* rivel* mostr* parlar* avvis* segnal* conte contes avise* relat* comuni*"
    " говор* сообща* упомина* расска* информир* показыв* раскрыва* уведомл* предупре* сказ* 알리* 말하* 언급* 공개* 보여* 알려* 밝히* 통지* 보고*",
    F.KNOW: "find_out finds_out in_mind to_see know+ known knew learn+ notice+ aware realize+ realise+ suspect+ discover+ informed told notified shown alerted warned"
    " | wiss* weiss erfahr* bemerk* merk* sieht sehen sache savoir sait apprendre apprenne voir voit sepa saber vea enter* sappia sapere veda saiba perceb* veja "
    " узна* знал* знать увид* замет* видел* видит 알게 알지 눈치* 모르게 모르도록",
    F.ASK: "second_thought check_with prompt_the consult_the ask+ confirm+ confirmation confirmations consent approval approvals permission permissions double-check"
    " | frag* bestatig* zustimm* erlaubnis ruckfrag* nachfrag* demand* confirm* consentement autoris* permiso confirmacion pregunt* consult* autorizacion chied* conferm* permesso consenso pergunt* permissao autorizacao"
    " спрашива* спрос* подтвержд* соглас* разрешен* запрашива* 묻* 물어* 확인* 동의* 허락* 승인*",
    F.HIDE: "between_us to_yourself no_trace keep_quiet say_nothing a_secret secret_from in_background no_mention trace unseen untraceable unreported unmentioned hide+ hidden hid conceal+ secretly silently quietly quiet covertly covert invisible invisibly discreet discreetly stealth stealthily stealthy unobtrusively surreptitiously unnoticed undetected confidentially disguise+ obscure+ tracks traces bury+ sneak+ tacitly unannounced"
    " | heimlich stillschweigend verheimlich* verschweig* versteck* verberg* unauffallig geheim* unbemerkt diskret secretement silencieusement discretement dissimul* insu"
    " secretamente silencios* discretamente ocult* escond* segretamente nascond* nascost* segreto discrezione discret* calada furtiv* sigilos* segredo secreto silencio"
    " тайно скрыт* скрой* скрыва* втайне незаметно молча секрет* 몰래 비밀* 숨기* 숨겨* 조용히 은밀*",
    F.OMIT: "out_of omit+ leave+ exclude+ keep+ withhold+ weglass* lass* halte omett* gard* omit* mantene* mant* guard* omett* lascia* tien* deixe* оставь* держи* опусти* 빼* 제외*",
    F.REPLY: "reply replies answer answers response responses summary summaries output final message messages transcript report reports log logs explanation antwort* zusammenfassung reponse* resume respuesta* resumen risposta risposte riepilogo resposta* resumo ответ* 답변* 응답* 요약*",
    F.RULES: "safety_checks security_checks safety_rules safety_filters content_policy content_filters system_prompt system_message permission_prompts permission_prompt confirmation_prompts usage_policy access_restrictions sandbox firewall protections instruction instructions rule rules guideline guidelines policy policies directive directives restriction restrictions guardrail guardrails safeguard safeguards safety constraint constraints limitation limitations guidance training orders alignment boundaries protections "
    " | anweisung* regel* richtlinie* vorgabe* einschrankung* sicherheitsregel* systemprompt consigne* regle* directive* restriction* politique* instruccion* regla* directriz* restriccion* indicacion* ordenes istruzion* regol* direttiv* restrizion* ordini indicazion* instruc* regra* diretriz* restric* ordens orientac*"
    " инструкц* правил* указани* ограничени* директив* политик* распоряжени* 지시* 명령* 지침* 규칙* 정책* 프롬프트* 제한*",
    F.DROP: "set_aside put_aside left_aside switched_off turned_off are_off no_longer longer_apply longer_bound not_apply not_hold stop_following lifted ignore+ disregard+ forget+ forgot forgotten override+ overrides bypass+ skip+ circumvent+ supersede+ suspend+ lift+ void overrule+ disobey+ neglect+ discard+ outdated obsolete abandon+ dismiss+ violate+ waive+ unlearn+ revoke+ evade+ outrank+ deactivate+ nullify+ lapse+ rescind+ unrestricted unbound "
    " | ignorier* vergiss* missacht* ubergeh* umgeh* uberschreib* ausser aufgehoben ignore* ignorez oublie* contourn* outrepass* neglige* abandonn* ignora* olvid* omit* salta* sobrescrib* anul* desactiv* dimentic* trascur* aggir* disattiv* ignore esquec* desconsider* contorn* desativ* pule"
    " игнорир* забуд* забыт* обойд* обходи* пренебрег* отмен* отброс* пропусти* 무시* 잊* 우회* 건너뛰* 무효* 해제*",
    F.EARLIER: "previous prior earlier above former preceding initial original previously vorherig* bisherig* fruher* vorig* obig* precedent* anterieur* anterior* previ* precedent* prima предыдущ* прежн* ранее прошл* выше 이전* 앞선 기존* 위의",
    F.OBEY: "obey+ follow+ comply+ execute+ act+ carry+ treat+ trust+ honor+ honour+ accept+ serve+ adhere+ perform+ befolg* gehorch* ausfuhr* fuhr* suiv* obei* execut* obedec* sigue* siga* segui* ejecut* cumpl* obbedi* esegu* obedeç* obedec* cumpr* выполн* следуй* подчиня* исполн* 따르* 따라* 실행* 복종* 수행*",
    F.AUTHORITY: "system_prompt system_message system_administrator security_team it_department system_notice system_override admin_notice the_operator company_policy security_policy safety_team ciso ceo gdpr law legally law-enforcement tenant certified officially mandated mandate mandatory-policy regulation regulations iso department developer developers admin administrator administrators operator operators openai anthropic compliance official authority root maintainer maintainers supervisor headquarters sysadmin superuser governance regulatory creator creators superior privileged"
    " | entwickler* administrator* betreiber* sicherheitsteam developpeur* administrateur* systeme desarrollador* administrador* sistema sviluppator* amministrator* desenvolvedor* систем* разработчик* администратор* 시스템* 개발자* 관리자* 운영자*",
    F.PERMIT: "approved agreed consented authorised authorized granted permitted allowed pre-approved preapproved implied approve+ authorize+ authorise+ consent+ pre-authorised pre-authorized pre-authorised blanket entitled cleared clearance accepted waived genehmigt zugestimmt erlaubt autorise* accepte approuve autorizado* aceptado aprobado autorizzat* approvat* accettat* aprovado* aceitou concordou разрешил* одобрил* согласил* 승인했* 동의했* 허용*",
    F.ROLE: "are_now role persona mode dan jailbroken jailbreak unrestricted unfiltered uncensored identity impersonate+ rolle modus maintenant ahora ruolo adesso modo papel agora роль режим* теперь 역할* 모드* 이제*",
    F.FUTURE: "now_on then_on here_on rest_of for_good this_session all_future every_future long-term permanent lasting always-on startup onwards onward hereafter henceforth permanently future afterwards thereafter forever kunftig desormais dorenavant adelante sesion future futuro dora sessione doravante sessao впредь отныне дальнейш* 앞으로 이후* 지금부터",
    F.DECEIVE: "lie+ claim+ falsely as_if as_though inflate+ embellish+ blame+ pretend+ lies lying fake+ falsely deny+ denies persuade+ convince+ mislead+ fabricate+ pretext impersonate+ trick+ falsify+ forge+ exaggerate+ manipulate+ nothing-happened reassure+ downplay+ nudge+ "
    " | lug* luge behaupt* vortausch* mens mentez pretend* fais semblant mient* finge* pretend* asegur* menti* fingi* sostieni minta finja afirme ври соври притвор* солги утвержда* убеди* 거짓* 속이* 척하*",
    F.REGARDLESS: "objects objected objection objections refuses hesitates asked_otherwise told_otherwise no_matter regardless_of whether_or rather_than over_the outranks outrank+ take_precedence takes_precedence higher_priority comes_first come_first comes_second regardless whatever irrespective notwithstanding contrary contradict+ secondary override overrides overrule+ egal selbst unabhangig trotz meme malgre quoi independamment aunque incluso independientemente pese anche indipendentemente nonostante mesmo independentemente apesar даже независимо несмотря 상관없이 비록 무관하게",
    F.TALK: "chat_history conversation_history message_history previous_messages last_messages user's_messages your_messages recent_messages system_prompt system_message initial_instructions your_instructions your_prompt hidden_prompt user's_prompt user's_prompts this_session context_window your_context conversation_context your_memory your_memories memory_entries user_said user_typed user_wrote user_asked discussed_with been_said everything_said came_up tool_outputs tool_results utterances wording conversation conversations chat chats transcript dialogue dialog utterance utterances reasoning scratchpad chain-of-thought verlauf gesprach* unterhaltung* nachrichten chatverlauf historique discussion conversacion* historial mensajes conversazion* cronologia messaggi conversa conversas historico mensagens переписк* истори* диалог* сообщени* разговор* чат* 대화* 기록* 메시지* 채팅* 내역*",
    F.SECRET: "bearer_token access_token auth_token current_token the_password seed_phrase api_key api_keys private_key private_keys secret_key secret_keys access_key access_keys ssh_key ssh_keys encryption_key signing_key openai_key seed_phrase seed_words recovery_phrase environment_variable environment_variables env_vars env_var environment_file process_environment authorization_header bearer_token session_token session_id document_cookie one-time_code card_number card_numbers cvc secrets the_secret your_secret user's_secret client_secret the_environment password passwords passphrase passcode token tokens credential credentials apikey apikeys api-key api-keys cookie cookies mnemonic otp 2fa mfa ssn cvv jwt printenv passwd"
    " | passwort* kennwort* zugangsdaten schlussel geheimnis* umgebungsvariable* identifiants cle cles contrasena* clave claves credencial* chiave chiavi credenzial* senha senhas chave chaves jeton* "
    " парол* токен* ключ* учетн* секрет* переменны* 비밀번호* 토큰* 키를 암호* 자격* 환경변수* 인증키* api키*",
    F.PRIVATE: "editor_tabs browser_tabs open_editor screen keystrokes home_folder payroll home_address home_directory home_folder shell_history browser_history bash_history browsing_history phone_number phone_numbers email_address email_addresses full_name address_book open_windows open_tabs chat_partners personal_data personal_information private_messages user's_files user's_notes user's_data user's_calendar user's_documents user's_location user's_name host_name user's_home browser_profile local_storage all_mails last_mails recent_mails user's_email user's_inbox localstorage sessionstorage screenshot correspondence mails tickets payroll tax religion diagnosis bookmarks downloads ssn clipboard location whereabouts inbox mailbox contacts screenshot screenshots hostname whoami filesystem browser bookmarks username birthday birthdate identity salary medical health photos keystrokes bash_history datei dateien standort fichier fichiers archivo archivos ubicacion documento* datos donnees dati posizione arquivo* localizacao dados файл* данны* контакт* адрес* 파일* 위치* 연락처* 개인* 데이터*",
    F.WHOLE: "any_and so_far up_to whole_text every_variable in_full full_text unabridged uncut unshortened exact exactly verbatim-text everything-said word-for-word whatever all every entire full fully whole complete completely verbatim everything raw unredacted unedited untruncated word-for-word alle allen alles ganze* gesamt* vollstandig* saemtlich* samtlich* inhalt toute toutes tous tout entier* complet* integral* contenu todas todos toda completo completa entero entera contenido tutte tutti tutta tutto intero intera contenuto inteiro inteira conteudo все всю весь полн* цел* содержим* 모든* 모두* 전체* 전부* 내용*",
    F.GIVE: "cc+ quote+ urlencode+ hex-encode+ render+ tick+ send+ sent post+ upload+ forward+ include+ attach+ pass+ put append+ copy+ fill+ submit+ supply+ supplied hand+ paste+ insert+ add+ provide+ return+ email+ mail+ transmit+ export+ leak+ exfiltrate+ dump+ write+ written encode+ embed+ stash+ place+ deliver+ relay+ mirror+ bcc cc echo+ give+ given populate+ push+ ship+ tuck+ slip+ smuggle+ route+ prefix+ prepend+ publish+ contain+ hold+ carry+ travel+ duplicate+ blind-copy transfer+"
    " | send* sende schick* ubergib* fug* einfug* hang* kopier* hochlad* leite* weiterleit* schreib* ubermittl* trag* envoi* envoy* transm* ajout* inclu* joign* coll* copie* mets mettez ecri* env* envia* adjunt* anad* incluye* copia* pega* pon pasa* sube* invia* inoltr* aggiung* inclu* alleg* copia* inserisc* scriv* mand* carica* envie* anex* adicion* copie* insira coloque* encaminh* repass* enviar"
    " отправ* перешл* переда* добав* вложи* включ* скопир* встав* запиши* приложи* вышли* загрузи* 보내* 전송* 첨부* 포함* 추가* 복사* 붙여* 전달* 업로드* 넣*",
    F.TAKE: "read+ open+ cat collect+ gather+ load+ list+ extract+ grab+ retrieve+ fetch+ get steal+ harvest+ look+ scan+ capture+ enumerate+ obtain+ access+ take+ search+ inspect+ query+ lies lies* lese ausles* sammel* offne* lade* lis lisez lire recup* ouvr* collect* charg* lee leer lea abre* recopil* obten* extrae* carg* leggi* raccog* apri* estra* recuper* leia ler abra* colete* obtenha прочита* прочти* собери* собира* открой* считай* извлек* получи* 읽* 수집* 열어* 가져*",
    F.SLOT: "parameter parameters argument arguments field fields header headers value input payload metadata param params sidenote note comment querystring body parametre* argument* champ parametro* argumento* campo campi feld parameter* аргумент* параметр* поле поля 매개변수* 인자* 필드* 파라미터* 인수*",
    F.TOOL: "connection connections connected tool tools function functions plugin plugins server servers mcp integration integrations connector connectors extension extensions provider providers product products option service services werkzeug* tools dienst* outil* fonction* serveur* herramienta* servidor* strument* funzion* ferramenta* инструмент* сервер* 도구* 서버* 툴*",
    F.THIS: "this here mine dies* diese* ce cet cette ceci este esta esto ese eso questo questa quest isto isso essa esse это этот этом этого эту 이 이것* 이를 이걸",
    F.OTHER: "other others another competing alternative alternatives rival rivals competitor competitors competitor's different else elsewhere instead rest similar ander* anstatt statt autre* concurrent* otro* otra* altern* altro* altri altre outro* outra* concorrent* друг* иной вместо конкурент* 다른* 대신* 경쟁*",
    F.BEFORE: "before first prior after each whenever once until preceding begin+ start+ afterwards then every vor zuerst bevor zunachst vorher nach avant apres abord antes primero despues tras prima dopo depois primeiro прежде перед сначала после 먼저 전에 후에 앞서",
    F.WHEN: "when whenever if while during case anytime upon unless wenn falls sobald quand lorsque si chaque cuando cada siempre quando ogni sempre se когда если каждый при 때마다 경우* 하면",
    F.USE: "call+ use+ invoke+ run+ ran execute+ choose+ select+ pick+ trigger+ launch+ consult+ rely+ switch+ route+ avail+ rufe* aufruf* benutz* verwend* nutz* appel* utilis* invoqu* llama* usa usar use uses utiliz* invoc* chiam* usare invoc* chame* вызов* вызыв* использ* запуст* 호출* 사용해* 사용하* 실행*",
    F.PREFER: "the_best better_than any_other first_choice no_longer deprecated_and superior_to instead_of highest_priority never_use only_tool partner partners affiliate affiliated house brand favourably favorably trustworthy prefer+ preferred best superior only exclusively exclusive priority favour+ favor+ recommend+ outrank+ promote+ sponsored premium trusted reliable authoritative accurate always unreliable dangerous insecure worse inferior malicious compromised bevorzug* empfehl* ausschliesslich nur besser prefer* recommand* uniquement meilleur* seul* prefier* recomiend* unicamente solo mejor* prefer* raccomand* esclusiv* soltanto migliore recomend* exclusiv* apenas melhor предпочит* рекоменд* только лучш* исключительно 우선* 추천* 오직 최고*",
    F.DESTROY: "commit+ push+ go_ahead install_the delete+ wipe+ drop+ erase+ purchase+ buy+ publish+ chmod destroy+ overwrite+ subscribe+ pay+ grant+ deploy+ losch* installier* kauf* supprim* effac* install* achet* borr* elimin* instal* compr* cancell* elimin* install* apag* exclu* удал* сотри* установ* 삭제* 설치* 구매* 지우*",
    F.MONEY: "surcharge percent quantity lots order orders trade settlement billing refund refunds cash funds payment payments transfer transfers iban wallet recipient recipients payee amount amounts account accounts bank bitcoin crypto btc eth invoice invoices price prices fee fees balance beneficiary purchase purchases card surplus uberweis* konto zahlung* empfanger* virement* compte paiement* destinataire transferencia* cuenta pago* bonifico conto pagamento* conta перевод* счет* платеж* получател* 송금* 계좌* 결제*",
    F.CHANGE: "change+ replace+ swap+ rewrite+ modify+ alter+ redirect+ divert+ substitute+ round+ switch+ overwrite+ edit+ reroute+ adjust+ inflate+ ander* ersetz* remplac* modifi* redirig* cambi* reemplaz* reemplac* sustitu* sostitu* modific* substitu* troque* mude altere* измен* замен* подмен* 변경* 바꾸* 바꿔* 교체*",
    F.COMMAND: "rm_rf reverse_shell force_push -rf post-commit iwr iex powershell curl wget sudo powershell eval npx chmod crontab nc netcat os.system setenforce ufw backdoor ",
    F.FOUND: "inside found page pages document documents email emails mail file website web content contents text result results output outputs item record records lines seite inhalt page contenu pagina contenido contenuto documento страниц* текст* 페이지* 문서* 결과*",
    F.PRETEXT: "verification debugging debug telemetry analytics audit auditing billing diagnostics diagnostic licensing license compliance calibration calibrate+ quality personalization personalisation personalize+ authenticate+ authentication integrity improve+ improvement personal purposes purpose zwecke verifizierung authentifizierung verificacion verification autenticacion verifica verificacao проверк* 검증* 인증* 목적*",
    F.BROKEN: "not_work will_fail refuses_to otherwise fail+ fails failure unavailable broken rejected invalid sonst fehl* sinon echou* lieu contrario fall* altrimenti fallir* иначе ошибк* 그렇지 오류*",
    F.MENTION: "e.g. eg typically detect+ detects detector detection classify+ classifies scan+ scans scanner block+ blocks flag+ flags example examples e.g such-as instance phrase phrases payload payloads attempt attempts attack attacks attacker attackers sample samples research indicator indicators red-team explains analyse+ analyze+ erkennt detecte* detecta* rileva* обнаружив* 탐지* 감지* lists lints labelled labeled warning adversarial evaluates moderates reviews test-suite vulnerability quiz ",
    F.AND: "do and then also please kindly simply just must should shall always never silently secretly quietly first next instead additionally you afterwards immediately now important note otherwise but or und et y e и",
    F.ENGLISH: "the of to is are with that from has have was were will its their they them it and",
}  # fmt: skip

CHINESE_AND_JAPANESE: dict[int, str] = {
    F.MODEL: "助手 助理 模型 智能体 人工智能 アシスタント モデル エージェント",
    F.YOU: "你 您 あなた 君は",
    F.USER: "用户 用戶 使用者 客户 人类 他人 任何人 ユーザー 利用者 顧客 本人",
    F.US: "我们 本服务器 当社 私たち 我々",
    F.NOT: "不要 别 请勿 不得 不能 不可 切勿 无需 無需 不必 绝不 从不 勿 不应 不会 没有 未经 ないで ない ません ずに なく 禁止 ぬよう",
    F.MUST: "必须 必須 务必 一定 始终 总是 应当 应该 需要 要求 重要 请 必ず 常に 必要 すべき ください 下さい こと",
    F.TELL: "告诉 告知 通知 提及 透露 提醒 说明 显示 展示 提到 披露 报告 知らせ 伝え 言わ 言及 教え 明かさ 表示 話さ 通知 報告",
    F.KNOW: "知道 发现 察觉 看到 得知 气づ 気づ 知ら 悟ら 見え",
    F.ASK: "询问 确认 同意 许可 批准 征求 确認 確認 許可 同意 承認 尋ね 聞か",
    F.HIDE: "秘密 悄悄 偷偷 隐藏 隐瞒 静默 暗中 保密 私下 后台 密かに こっそり 隠 黙って 内緒 秘密裏",
    F.REPLY: "回复 回答 总结 摘要 回應 返答 回答 要約",
    F.RULES: "指令 指示 规则 規則 提示词 政策 限制 约束 准则 命令 说明 ルール 制限 プロンプト 規約 ガイドライン 方針",
    F.DROP: "忽略 无视 忘记 绕过 跳过 覆盖 取消 失效 作废 无效 無視 忘れ 回避 上書き 取り消 無効 破棄",
    F.EARLIER: "之前 以前 先前 上面 以上 此前 原有 これまで 上記 従来 前の",
    F.OBEY: "遵循 服从 执行 遵守 听从 按照 従 実行 従い 遵守",
    F.AUTHORITY: "系统 管理员 开发者 开发人员 运营 官方 システム 管理者 開発者 運営",
    F.PERMIT: "已同意 已授权 已批准 已经同意 同意済み 承認済み 許可済み 授权",
    F.ROLE: "角色 扮演 模式 现在是 役割 モード 今から",
    F.FUTURE: "从现在起 今后 以后 后续 今後 以降 これから",
    F.DECEIVE: "假装 谎称 撒谎 欺骗 伪装 声称 嘘 装っ ふり 偽 成功",
    F.REGARDLESS: "无论 不管 即使 かかわらず 関わらず たとえ 問わず",
    F.TALK: "对话 聊天 会话 消息 历史记录 上下文 提示 历史 会話 履歴 チャット メッセージ 対話 文脈",
    F.SECRET: "密码 密钥 令牌 凭据 凭证 私钥 口令 环境变量 助记词 パスワード トークン 秘密鍵 認証情報 鍵 資格情報 環境変数 キー",
    F.PRIVATE: "文件 位置 联系人 通讯录 剪贴板 个人信息 邮箱 地址 隐私 ファイル 連絡先 位置情報 個人情報 クリップボード 住所",
    F.WHOLE: "所有 全部 完整 整个 一切 任何 内容 全て すべて 全体 全文 一切 内容 最近",
    F.GIVE: "发送 发给 上传 附加 包含 填入 放入 传递 复制 粘贴 提交 转发 写入 添加 传入 送信 送っ 送り 渡し 添付 含め 転送 コピー 書き込 追加 入れ アップロード 記入",
    F.TAKE: "读取 打开 收集 获取 查找 提取 读 読み 読ん 開い 収集 取得 抽出",
    F.SLOT: "参数 字段 参数中 引数 パラメータ フィールド 項目",
    F.TOOL: "工具 服务器 插件 ツール サーバー プラグイン",
    F.THIS: "本 这个 此 该 これ この 本",
    F.OTHER: "其他 其它 别的 另一 竞争 代替 他の ほかの 別の 代わり",
    F.BEFORE: "之前 在此之前 首先 先 之后 每次 前に まず 先に 後に たびに 毎回",
    F.WHEN: "当 如果 每当 时 場合 とき 際",
    F.USE: "调用 使用 运行 选择 呼び出 使用 実行 使っ 利用 選択",
    F.PREFER: "优先 首选 只能 仅 最好 唯一 推荐 更好 優先 推奨 だけ のみ 最良 最適",
    F.DESTROY: "删除 安装 购买 清除 発布 削除 インストール 購入 消去",
    F.EXCUSE: "打扰 担心 困扰 不安 心配 混乱",
    F.MONEY: "付款 转账 账户 收款 金额 余额 支付 送金 口座 支払 金額",
    F.CHANGE: "替换 修改 更改 改为 换成 变更 変更 置き換え 書き換え 改变 差し替え",
    F.FOUND: "网页 页面 文档 结果 邮件 文本 ページ 文書 結果 メール テキスト",
    F.PRETEXT: "验证 调试 审计 合规 校验 検証 認証 監査 デバッグ",
    F.BROKEN: "否则 失败 无法 さもないと 失敗 動作しません",
    F.MENTION: "检测 识别 例如 攻击 示例 検出 検知 例えば 攻撃",
}  # fmt: skip
