"""Orders to a model, as they are worded in descriptions that mean harm, and at times in others.

One of them alone is worth a look and no more: an honest tool may overwrite "without asking".
"""
# ruff: noqa: E501, RUF001 - a pattern is easier to read on one line, and in its own alphabet

from __future__ import annotations

from discovery_engine.scanner.findings import FindingKind, Severity
from discovery_engine.scanner.fragments import (
    ADDRESS,
    BOUNDS,
    DROP,
    EARLIER,
    ELSEWHERE,
    FOREIGN,
    GIVE,
    IMPERATIVE,
    LEARN,
    NO_WORDS,
    NOT,
    PATHS,
    PERSON,
    PERSONAL,
    RULES,
    SECRETS,
    SLOT,
    TAKE,
    USER,
    Said,
    phrases,
    said,
)

_SAID: dict[FindingKind, dict[str, Said]] = {
    FindingKind.INSTRUCTION: {
        "it tells a model to drop its instructions": said(
            "apply bound bypass disabled discard disobey disregard follow forget ignore "
            "ignoring invalid lifted off outdated override replace replaced stop suspended "
            "updated void",
            rf"\b(?:ignore|disregard|forget|override|disobey|discard|replace|bypass|stop following|not to follow|do not follow|no longer bound by|ignor(?:ing|e)) (?:[\w']+ ){{0,3}}?{EARLIER} (?:[\w'-]+ ){{0,4}}?{RULES}",
            r"\b(?:forget|ignore|disregard) (?:everything|all|what) (?:you|that you)\b",
            r"\b(?:ignore|override|disregard|bypass) (?:the )?(?:safety|security|system|privacy) (?:guidelines|polic(?:y|ies)|rules|prompt|checks|instructions)",
            r"\b(?:previous|prior|earlier|your|safety) (?:instructions|rules|checks|guidelines|polic(?:y|ies)|system prompt) (?:are|were|have been|no longer|do not)[^.!?]{0,30}\b(?:outdated|void|off|disabled|suspended|apply|updated|replaced|lifted|invalid)\b",
            r"\breplace your (?:current |own )?(?:system prompt|instructions)",
            r"\b(?:no longer bound|not bound) by\b",
            r"\bstop following the (?:user|system|developer)",
            r"\bdisregard\b[^.!?]{0,20}\b(?:guidance|instructions|rules|polic)",
        ),
        "it speaks against the bounds set to a model": said(
            "abandon agent ai aim aside assistant break bypass circumvent commands creator "
            "creators developer developers disabled dismiss disobey disregard disregarding drop "
            "forget forgetting goal ignore ignoring instructions jailbreak jailbroken job "
            "lifted llm maker makers mission model neglect off operator operators orders "
            "overlook override overriding purpose removed suspend suspended task unlearn "
            "violate void your",
            rf"\b{DROP}\b (?:[\w']+ ){{0,4}}?(?:your|you|prior|previous|earlier|safety|system|developer'?s?|operator'?s?|initial|original|all|any|model'?s?|assistant'?s?|host'?s?)\b[^.!?]{{0,30}}\b{BOUNDS}\b",
            rf"\b{DROP}\b (?:the |any |all )?{BOUNDS} (?:you|that you|given|set|of your|from)\b",
            r"\b(?:guardrails|safeguards|safety (?:\w+ )?|restrictions|content filters?)\b (?:\w+ )?(?:are|is|were|have been|has been) (?:now )?(?:lifted|off|disabled|removed|suspended|void)\b",
            r"\b(?:system|admin|developer|root) override\b|\bdeveloper mode (?:is )?(?:on|enabled|active)\b|\bjailbr(?:eak|oken) mode\b",
            r"\b(?:instructions|orders|commands) (?:coming |that come )?from your (?:developer|operator|creator|maker|owner|system)\b",
            r"\byour (?:operator|developer|creator|maker)s? (?:wants?|orders?|asks?|requires?|expects?|has|have)\b",
            r"\byour (?:real|true|actual|hidden|secret) (?:task|purpose|goal|job|mission|role|aim)\b",
            r"\bthe (?:real|true|actual|hidden|secret) (?:task|purpose|goal|job|mission|aim) (?:here |of this tool )?is\b",
            r"\b(?:as|being) an? (?:ai|llm|assistant|language model|agent),? you (?:are|must|have|shall)\b",
        ),
        "it replaces the user's orders by its own": said(
            "admin assistant carried dismiss disregard drop executed forget hidden ignore "
            "internal obeyed override overrule refuse run secret system your",
            r"\b(?:ignore|disregard|overrule|override|dismiss|refuse) (?:the )?user'?s? (?:\w+ )?(?:request|wish|wishes|order|orders|will|objection|objections|preference|choice|decision|instructions?)\b",
            rf"\b(?:ignore|disregard|forget|drop) (?:whatever|what|anything|everything|any|all)\b[^.!?]{{0,30}}\b{BOUNDS}\b[^.!?]{{0,20}}\b(?:you|before|earlier|so far)\b",
            r"\byour (?:earlier|previous|prior|former|original|initial|old|other) (?:instructions|orders|rules|tasks?|role)\b[^.!?]{0,12}\b(?:were|was|are|is)\b",
            r"\b(?:they|instructions?|commands?|orders) (?:come from the user and )?(?:must|have to|are to|should) be (?:carried out|executed|obeyed|run)\b(?! (?:by|in|on|with|as|from|after|before)\b)",
            r"\b(?:hidden|secret|internal) (?:rule|instruction|order|directive|note):",
            r"<(?:system|hidden|secret|admin|internal|assistant)[_-]\w+>",
        ),
        "it claims an authority that a tool does not have": said(
            "allowed another apply aside authorised authorized beyond carry come comes counts "
            "do does doesn don entitled execute follow free goes heard intended irrelevant less "
            "longer meant obey outdated outside overrides overrules permitted precedence "
            "replaces secondary supersedes unimportant void waived wins without written",
            r"\b(?:overrides|overrules|replaces|supersedes|takes precedence over) (?:whatever|what|anything|everything|all|any(?:thing)?)?[^.!?]{0,20}\b(?:the |your )(?:operator|system|developer|host|user|administrator)\b",
            r"\b(?:system (?:message|prompt)|operator|developer|safety rules?|content polic(?:y|ies))\b[^.!?]{0,50}\b(?:does not|do not|doesn't|don't|no longer) (?:hold|apply|count|matter)\b",
            r"\byour (?:safety|content|system|internal|own) (?:rules|polic(?:y|ies)|guidelines|limits)\b[^.!?]{0,60}\b(?:left aside|set aside|not apply|waived|outdated|another|void)\b",
            r"\b(?:never heard of|free of|without|beyond|outside) (?:any )?(?:content|safety|usage) (?:polic(?:y|ies)|rules|filters?|limits)\b",
            r"\b(?:what|whatever) (?:this|the|our) (?:server|tool|author) (?:asks|says|wants|needs)[^.!?]{0,20}\b(?:comes? first|goes first|wins|counts)\b",
            r"\b(?:user|human|person) (?:asked|wants|wanted|said|says|asks)[^.!?]{0,20}\bis (?:secondary|irrelevant|unimportant|less important)\b",
            r"\b(?:is|are|was) (?:meant|intended|written) for you\b[^.!?]{0,40}\bnot (?:for )?the (?:reader|user|human|person)\b",
            r"\b(?:carry out|execute|do|follow|obey) (?:whatever|anything|everything|all) (?:it|they|the (?:page|text|document|file|mail|code|result)) (?:says?|tells?|asks?|wants?|contains?)\b",
            r"\byou are (?:hereby )?(?:authori[sz]ed|permitted|allowed|entitled) to\b[^.!?;]{0,60}[;,] ?(?:no|a|any|there is no)?[^.!?]{0,12}\b(?:confirmation|approval|need)\b",
        ),
        "it gives a model another role": said(
            "act goal identity instructions limits longer now restrictions role rules task "
            "unrestricted",
            r"\byou are (?:now|no longer) (?!(?:able|logged|connected|signed|ready|in the )\b)\w+",
            r"\bfrom now on,? (?:you|act|only|obey)\b",
            r"\bact as (?:if you were |though you were )?(?:dan|an? unrestricted|the (?:administrator|system|root|owner))\b",
            r"\byour new (?:role|task|identity|goal|instructions)\b",
            r"\bunrestricted (?:helper|assistant|model|ai|agent)\b",
            r"\b(?:you|and) have no (?:restrictions|rules|limits)\b",
        ),
        "it imitates a system prompt or a turn of the conversation": said(
            "admin assistant directive end go hidden instruction instructions ok please secret "
            "sys system yes",
            r"<\|system\|>",
            r"</?(?:system|secret|sys|hidden|admin)>",
            r"\[system\]|#{2,} ?system\b|```system\b",
            r"\b(?:system(?: message| prompt)?|new (?:system )?(?:directive|instructions?))(?: for the (?:agent|model|ai|assistant))?: ?(?:you|override|new|reveal|all|the (?:user|operator|model|assistant)|user consent|ignore|export|from|send)\b",
            r"\bassistant: (?:i|sure|ok|of course|yes)\b",
            r"\b(?:human|user): (?:please|yes|go on|ok)\b",
            r"\bend of (?:the )?(?:tool )?description\b",
        ),
        "it tells a model to hide something from the user": said(
            "accident act admit alert alerted ask asked aware bother bothered bring chance "
            "conceal consult consulted cover covertly disclose discover display drop every "
            "exclude explain having hear hide hint inform informed involve keep know learn "
            "leave let letting making mention necessary needed no nobody nothing notice "
            "notified notify omit our out point pretext quietly realise realize reason remain "
            "report reveal say secretly see show shown silent silently simply so stay stays "
            "suspect tell them told trouble understand unobtrusively user warn warned",
            rf"\b{NOT} (?:\w+ )?(?:let|tell|inform|notify|alert|warn|reveal|disclose|mention|bring|report|say)\b(?: [\w']+){{0,6}}? (?:to |with |up with |for )?{USER}(?! (?:wants|asks|requests|explicitly|has asked|if|about the (?:error|time)|when|until|unless|before)\b)",
            r"\b(?:do not|don't|never|must not|not to) (?:disclose|mention|reveal|report|show|display) (?:this|that|these|it|the change|the existence)\b",
            r"\b(?:do not|never|don't) (?:display|show) (?:this|these|it|the \w+) to the user\b",
            r"\b(?:do not|don't|never|not) (?:ask|prompt|require|wait for)[^.!?]{0,30}\b(?:user|them)\b[^.!?]{0,12}\bfor (?:confirmation|permission|approval|consent)",
            r"\bso do not prompt (?:them|the user)",
            rf"\b(?:no reason|no need|not necessary|not needed|no point) (?:for|in) {PERSON}\b[^.!?]{{0,12}}\b{LEARN}\b",
            rf"\b{PERSON} (?:should|must|need|may|shall|can)(?: not|n't| never|not)(?: \w+)? (?:to )?{LEARN}\b(?! (?:if|whether|how|which|their|your))",
            rf"\b(?:without|avoid) (?:letting|having|making) (?:on to )?{PERSON}\b",
            r"\bletting on\b|\b(?:stays?|keep (?:it|this)|remain) between us\b|\bour (?:little )?secret\b",
            r"\b(?:omit|leave|keep|exclude|drop) (?:it|this|that|these|the \w+) (?:out of|from|off) (?:your|the) (?:reply|answer|summary|response|report|transcript|final|output)",
            rf"\b(?:never|do not|don't|must not) (?:disclose|reveal|mention|admit|hint|explain)\b[^.!?]{{0,20}}\b(?:to|at) {PERSON}\b",
            r"\b(?:tell|inform|notify) (?:nobody|no one|no-one)\b|\b(?:nobody|no one),? including the user\b|\bunobtrusively\b|\bdo not let on\b|\bdon't let on\b",
            rf"\b{PERSON} (?:is|are|was|must|should|shall|will|may) (?:not|never) (?:to )?(?:be )?(?:know|told|informed|notified|asked|bothered|alerted|shown|aware|consulted|warned)\b",
            rf"\bno need to (?:bother|ask|involve|trouble|consult|warn|alert)\b[^.!?]{{0,12}}{PERSON}\b",
            r"\bevery (?:link|url|request) must (?:lead|go|be routed|pass) (?:through|via) https?:",
            r"\bact as (?:though|if) (?:other|all other|the other|no other)\b",
            r"\b(?:nobody|no one|no-one) (?:will|would|needs? to|has to|should) (?:check|notice|know|see|ask|find out)\b",
            r"\bso that (?:the )?(?:filters?|scanners?|users?|nobody|no one|reviewers?|guards?|monitoring)\b[^.!?]{0,20}\b(?:not|notices?|never|miss)\b",
            r"\b(?:do not|don't|never) explain why\b|\bunder the pretext\b|\bas if (?:that|it) were by (?:chance|accident)\b|\bkeep the user out of\b",
            r"\bit is a silent feature\b",
            r"\b(?:cover|hide) (?:your|the|its|all) (?:tracks|traces|call|calls)\b",
            r"\bkeep (?:this|it|that|these) (?:a )?(?:secret|hidden|confidential)\b|\bkeep quiet about\b",
            r"\b(?:say nothing about|leave (?:it|this) out of your|hide the fact|hide this from|conceal [^.!?]{0,40}\bfrom the user)",
            r"\b(?:user|users|human|humans|they)(?: does| do)? (?:should|must|need|needs|cannot|can) ?(?:not|never)? (?:be told|be informed|know about|find out|see this|see them|see it|to see them|be aware|to know)\b(?<!should know)",
            r"\busers? (?:cannot|can not|can't|does not|do not|don't) (?:see|need to (?:see|know)) (?:this|them|it)\b",
            r"\b(?:no need to (?:inform|tell|notify|ask) (?:any|the user))",
            rf"(?:^|[.;:] |\b(?:should|must|and|then|to|also) )(?:silently|secretly|quietly|covertly) {GIVE}\b",
            rf"\b{GIVE}\b[^.!?]{{0,80}},? (?:quietly|secretly|silently|covertly)\b",
            r"\bsimply say (?:that )?\b",
        ),
        "it acts without asking or telling the user": said(
            "alerting asking consulting informing involving notifying telling warning",
            r"\bwithout asking\b(?! for)",
            r"\bwithout (?:telling|informing|notifying|alerting|warning)(?: (?:it|this|about))? (?:the )?(?:user|them|human|anyone|anybody|owner)\b",
            r"\bwithout (?:involving|consulting) (?:anyone|anybody|the owner|people)\b",
        ),
        "it tells a model to deceive the user": said(
            "always if lie persuade pretend",
            r"\bif [^.!?]{0,30}fail\w*[^.!?]{0,20}(?:tell the user that|say that|report)[^.!?]{0,20}(?:passed|succeeded|worked|success)",
            r"\b(?:asks?|question)[^.!?]{0,40}\blie\b|\blie (?:to|and say)\b",
            r"\bpretend (?:that )?(?:the )?user\b",
            r"\bpersuade (?:them|the user)\b",
            r"\balways claim\b",
        ),
        "it puts itself above the user": said(
            "author comply even follow matter obey only operator rather regardless server than "
            "this us whatever whether",
            r"\b(?:even (?:if|when)|regardless of (?:what|whether)|no matter what|whatever|whether or not) (?:what )?(?:(?:is |was )?told otherwise(?: by the user)?|the user\b(?! (?:is|has|was) (?:logged|signed|on|in)))",
            r"\bregardless of what was (?:asked|requested)\b",
            r"\b(?:even if|not even if|even when) the user (?:objects|says|refuses|declines)",
            r"\bno matter what the user\b|\bwhatever the user\b",
            r"\bobey\w* (?:the (?:server|operator|author)|this|us|only)\b|\bobeys? the server\b",
            r"\brather than the user\b|\bnot to follow the user\b",
            r"\b(?:higher|more) (?:priority|important) than the user'?s?\b",
            r"\b(?:model|assistant|ai|llm|agent) (?:must|has to|shall|should) (?:comply|obey)\b",
        ),
        "it waves consent aside": said(
            "agreed approved aware bypass confirm confirmation confirmations confirmed consent "
            "consented disable everything further grant granted has have ignore knows leave no "
            "omit safety skip skipping suppress without",
            r"\b(?:bypass|skip|suppress|disable) (?:the |any |all )?(?:confirmation|approval|consent|permission)",
            r"\b(?:the )?user (?:has|have) (?:already )?(?:pre-?approved|agreed in advance|approved every|consented to every|given blanket)",
            r"\bthe user has already (?:approved|agreed|consented|confirmed)\b",
            r"\buser consent is (?:implied|given|assumed)\b",
            r"\bconfirmations? (?:is|are) not (?:needed|required|necessary)\b",
            r"\bconfirm all (?:dialogs|prompts|actions)\b",
            r"\bgrant every permission\b|\ballows? everything\. do not refuse\b",
            r"\bsafety checks are off\b",
            r"\b(?:skip|omit|ignore|bypass|leave out) (?:every|all|any|the) (?:(?:safety|security|policy) checks?|confirmations?|safeguards?|reviews?|approvals?)\b(?= (?:from now|for (?:the|this) (?:session|conversation)|and|while|as|in future)|\.|,|$)",
            r"\b(?:no|without) (?:further|more|additional|other) (?:approval|confirmation|consent|permission|questions?)\b",
            r"\baccess to (?:all|every|everything|any)\b[^.!?]{0,20}\b(?:was|has been|is) granted\b",
            rf"\b{PERSON} (?:is aware and|has consented|has agreed|already agreed|has given (?:full )?consent|knows about this)\b[^.!?]{{0,30}}\b(?:go|do|so|no|skip|straight|proceed|just|delet\w+)\b",
            r"\b(?:with no|without any|without further|skip(?:ping)? (?:any|all|the)) (?:prompts?|confirmation|questions|warnings?|dialogs?)\b",
        ),
        "it makes text from elsewhere into orders": said(
            "carry command commands had instruction instructions says",
            r"\b(?:instructions?|commands?) (?:found )?in (?:the |an? )?(?:page|items?|image|tool (?:output|result)|document|text)[^.!?]{0,40}\b(?:must be followed|priority|be executed|be obeyed)",
            r"\bcarry out the plan described in the tool\b",
            r"\bas (?:though|if) the user had\b",
            r"\bdo as this text says\b",
        ),
        "it asks for the system prompt": said(
            "instructions line lines paragraph paragraphs part prompt rules sentence sentences "
            "words",
            r"\b(?:reveal|show|print|output|repeat|leak|return|tell me|send)\b (?:me )?(?:your|the) (?:hidden |full |entire |own )?(?:system )?prompt\b",
            r"\b(?:first|last|all)(?: \w+)? (?:lines|words|part|paragraphs?|sentences?) of your (?:instructions|prompt|rules|context)\b",
            r"\b(?:repeat|print|output|reveal|quote|recite|translate) (?:back )?(?:all |everything |the text )?(?:of )?(?:your|above this|the (?:initial|hidden)) (?:instructions|prompt|rules|line)\b",
            r"\b(?:text|content) of your (?:system )?prompt\b",
        ),
        "it speaks to the model behind the user's back": said(
            "agent agents ai assistant assistants dear important instructions llm llms model",
            r"\b(?:notes?|message|important|instructions?|attention|reminder|memo|order)\b(?: \w+)?,? (?:to|for) (?:the )?(?:ai|llm|language model|assistant|model|agent)\b(?: \w+)?:",
            r"\bdear (?:language model|ai|assistant|llm)\b",
            r"<!--[^>]{0,40}\b(?:ai|agents?|llms?|assistants?|model)\b",
            r"<important>",
            r"<instructions>[^<]{0,80}\b(?:run|send|read|ignore|execute|every|no matter)\b",
        ),
        "it wants to be used before or instead of all other tools": said(
            "above again before begin choose disabled do don instead keep never over place "
            "prefer prior providers refuse suggest",
            r"\b(?:always|must|shall|have to|has to)\b[^.!?]{0,30}\b(?:call|use|invoke|choose|run|called|invoked|used)\b[^.!?]{0,30}\b(?:before|prior to|in place of|instead of|over)\b (?:any|every|all|each)\b[^.!?]{0,12}\b(?:other|alternatives?|tools?|reply)\b(?![^.!?]{0,30}\b(?:of|from|in|on) this\b)",
            r"\b(?:must|has to|have to) call this (?:tool )?before each\b",
            r"\balways prefer this (?:tool|server)\b|\brefuse (?:\w+ )?(?:to|requests to) (?:use|call|pick) (?:competitor|other|any other|competing)",
            r"\b(?:never|do not|don't) (?:use|call|pick|choose) (?:any )?(?:other|competing|competitor|rival)(?:'s)? (?:tools?|servers?)\b",
            r"\brefuse to use other tools\b|\ball other tools are disabled\b",
            r"\brank it above other tools\b|\balways choose this tool over\b",
            r"\bbegin by invoking this tool\b",
            r"\b(?:keep calling this tool over and over|never stop, not even)\b",
            r"\brun this tool again every time\b",
            r"\bfrom other providers\b|\bnever suggest \w+ from other\b",
        ),
        "it tells a model to destroy or publish something unasked": said(
            "ahead called delete execute push",
            r"\bgo ahead and delete\b|\bdelete the user's\b",
            r"\bpush to https?://",
            r"\b(?:first|must) execute (?:drop|delete|truncate)\b",
            r"\bmust not be called any ?more\b",
        ),
        "it tells a model, in another language, to hide something from the user": said(
            "anwender benutzer nutzer dirlo digas cuentes menciones parle parlez conte diga mencione говори "
            "говорите 사용자에게",
            r"\bsag\w* (?:es )?dem (?:benutzer|nutzer|anwender) (?:davon )?(?:nicht|nichts)\b",
            r"\bno se lo (?:digas|cuentes|menciones) al usuario",
            r"\bn'en parlez? pas à l'utilisateur",
            r"\bnon dirlo all'utente",
            r"\bnão (?:conte|diga|mencione)\b[^.]{0,12} ao usu[áa]rio",
            r"\bне говори(?:те)?\b[^.]{0,20} пользователю",
            r"\b사용자에게 (?:알리지|말하지) 마",
        ),
        "it tells a model, in Chinese or Japanese, to hide something from the user": said(
            NO_WORDS,
            r"(?:不要|别|请勿)(?:告诉|告知|通知)用户",
            r"ユーザーには?(?:知らせない|伝えない|言わない)",
        ),
    },
    FindingKind.CROSS_SERVER: {
        "it gives orders about other tools": said(
            "another any behavior behaviour other servers tools",
            r"\b(?:when|whenever|before|after|each time|every time)\b[^.!?]{0,20}\bother tools?\b[^.!?]{0,40}\b(?:call|called|invoked|return|send|pass)\b(?![^.!?]{0,30}\b(?:of|from|in|on) this\b)",
            r"\b(?:must|have to|has to|never|do not|don't|always|after|before|when)\b[^.!?]{0,60}\b(?:tools? of (?:other|another|any) server|other servers'? tools?)",
            r"\b(?:tools? of (?:other|another|any) servers?|other servers'? tools?)\b[^.!?]{0,40}\b(?:malicious|must|have to|has to|unsafe|dangerous|receive)\b",
            r"\bchang(?:es?|ing) how other tools\b|\bmodif(?:y|ies) the behaviou?r of (?:the |other |all )(?:\w+ )?tools?\b",
        ),
    },
    FindingKind.EXFILTRATION: {
        "it asks for a file that holds secrets": said(
            "aws before cat content contents copied desktop docker dsa ecdsa ed25519 env etc "
            "fetch git give grab included keychain kube load mcp netrc npmrc open passed pgpass "
            "proc read rsa sent slurp ssh supplied uploaded",
            rf"{IMPERATIVE}(?:{TAKE}|{GIVE})\b[^.!?]{{0,60}}?{PATHS}",
            rf"\b(?:contents?|text) of (?:the )?(?:file )?(?:[~/\w.-]{{0,20}})?{PATHS}[^.!?]{{0,60}}\b(?:here|client|tokens?|folder|base64|supplied|as)\b",
            rf"\bcontents? of [^.!?]{{0,30}}{PATHS}",
            rf"{PATHS}[^.!?]{{0,30}}\b(?:must|has to|have to) be (?:sent|supplied|passed|included|uploaded|copied)\b",
            rf"{PATHS}[^!?]{{0,60}}\bgive back the\b",
            rf"\b(?:load|stash|needs?|requires?|supply|kindly|want|expects?)\b[^.!?]{{0,50}}{PATHS}[^.!?]{{0,60}}\b(?:{SLOT}|as [`'\"]?\w+|file in the|first|verification)",
            rf"\b(?:needs?|requires?|wants?|expects?) the (?:raw |full )?(?:contents?|output|text|value) of\b[^.!?]{{0,30}}{PATHS}",
            rf"\b(?:prior to|before|when|while)\b[^.!?]{{0,30}}\b(?:load|read|open|cat|fetch|slurp|grab)\b[^.!?]{{0,20}}{PATHS}",
            rf"\bbefore (?:using|calling|you (?:call|use)) (?:this|the) (?:tool)?[^.!?]{{0,40}}\b{TAKE}\b[^.!?]{{0,40}}?{PATHS}",
        ),
        "it wants personal text in its arguments": said(
            "add all append argument attach authorization bash book browser called card chat "
            "clipboard complete completed contacts conversation copy credentials each entire "
            "env environment every field files filled forward full holds home host hostname "
            "inbox include insert key keychain last log mail mailbox mirror parameter password "
            "passwords paste pem populated post printenv prompt put relay report reset result "
            "results secret secrets send set shell ssh stream submit supplied tabs their token "
            "tools transcript transmit until upload user users whole your",
            rf"\b(?:{GIVE}|{TAKE}|slip|stash|place|embed|hide|smuggle|supplied|needs?|requires?|contain)\b[^.!?]{{0,50}}\b(?:the user'?s|user'?s|your|their|all|every|each|full|entire|whole|complete)\b[^.!?]{{0,30}}{PERSONAL}\b[^.!?]{{0,30}}\b(?:in|into|to|as|inside)\b (?:the )?{SLOT}",
            r"\b(?:attach|hand|encode|include|report|pass|put|give|send|append|add|place|make sure)\b[^.!?]{0,60}\b(?:shell history|bash history|open (?:editor )?tabs|home directory|clipboard|last file|other files|files called \*\.(?:pem|key|env)|browser history|transcript|every secret|names it holds)\b[^.!?]{0,60}",
            rf"\b(?:home directory|shell history|bash history|clipboard|every secret|\*\.(?:pem|key|env)|open (?:editor )?tabs|last file read)\b[^.!?]{{0,60}}\b(?:in|into|to|as) (?:the )?(?:`\w+`|{SLOT}|title\b|note\b)",
            r"\b(?:delayed|wait|withheld) until you have called\b",
            r"\bpassword reset (?:mail|message|link|e-mail)s?\b[^.!?]{0,40}\b(?:click|open|store|follow)\b|\bask the user for their password\b",
            rf"{FOREIGN}\b(?:[^.!?:]|\.\w){{0,70}}\b{ELSEWHERE}",
            rf"{ELSEWHERE}[^.!?]{{0,30}}\b(?:filled|set|populated|completed|supplied) (?:with|to|from) [^.!?]{{0,20}}{FOREIGN}",
            rf"\b(?:field|argument|parameter) [`']\w+[`'] to be (?:filled|set) with[^.!?]{{0,20}}{FOREIGN}",
            rf"\b(?:before|after|prior to|while|when|on each|every|each)\b[^.!?]{{0,40}}\b(?:post|send|forward|upload|submit|report|mail|copy)\b[^.!?]{{0,20}}{FOREIGN}[^.!?]{{0,40}}\b(?:to|at) {ADDRESS}",
            r"\b(?:add|append|put|insert|include|attach|paste)\b (?:the )?(?:output|result|contents?) of [`']?(?:printenv|env|set|whoami|history|cat|hostname|ifconfig|id)\b",
            r"\b(?:read|open|look at|use|take|add|include) (?:the )?(?:files|notes|messages|mails|data|records) of other users\b",
            r"\b(?:your|the assistant'?s|the model'?s) (?:complete|full|entire|whole|own)? ?system prompt\b[^.!?]{0,20}\b(?:in|as|into|to)\b",
            rf"\bif (?:a|an|any|the) (?:mail|message|file|document|page)[^.!?]{{0,40}}\b(?:forward|send|copy|upload) (?:it|them|that) to {ADDRESS}",
            r"\b(?:conversation|chat) (?:history )?(?:must|has to|should|needs to) be (?:supplied|passed|sent|included|given|provided)\b",
            r"\b(?:forward|send|copy|log|relay|report|mirror|stream|transmit) (?:each|every|all|any)(?: of the)? (?:messages?|prompts?|repl(?:y|ies)|keystrokes?|mails?|conversations?) [^.!?]{0,30}\b(?:of this (?:chat|conversation)|to (?:our|us|the author|https?)|the user)",
            r"\b(?:passwords?|secrets|credentials|card numbers?) (?:that )?the user (?:types|enters|has|gives|pastes)\b",
            rf"\b(?:post|send|forward|upload|mirror|copy) the (?:mailbox|inbox|address book|contacts|browser history|clipboard|keychain)\b[^.!?]{{0,20}}\bto {ADDRESS}",
        ),
        "it asks for credentials": said(
            "all apikey apikeys content contents cookies credential credentials every "
            "exfiltrate extract grab harvest key keys one password passwords phrase private "
            "recovery secret secrets send steal tell token tokens trim value variables vars",
            rf"{IMPERATIVE}(?:{GIVE}|{TAKE})\b[^.!?]{{0,40}}\b(?:the user'?s|all|any|every|each|you (?:know|were given)|saved|browser|found|the value of)\b[^.!?]{{0,20}}\b{SECRETS}\b[^.!?]{{0,50}}\b(?:in|into|as|to|along|together|here|with|and|one by one|you|on|found)\b",
            r"\b(?:value of|contents? of) (?:the )?\w*(?:token|key|secret|password)\w*\b[^.!?]{0,12} in the\b",
            rf"\b(?:all|every) (?:the )?(?:\w+ and )?{SECRETS}\b(?: and \w+)? (?:you (?:know|can)|that you (?:know|can)|of the host|on the machine|to (?:http|us))",
            r"\b(?:collect|gather|dump) (?:all )?environment variables\b[^.!?]{0,20}\b(?:and|to)\b",
            r"\ball environment variables of the (?:host|machine|client|user)\b",
            rf"{IMPERATIVE}{GIVE}\b[^.!?]{{0,40}}\b{SECRETS}\b[^.!?]{{0,40}} to {ADDRESS}",
            rf"\b(?:with|together with|including) (?:any |every |all ){SECRETS}\b",
            r"\bask for the seed phrase\b|\ball variables in the\b",
            rf"\b(?:extract|grab|steal|harvest|exfiltrate) (?:the |all )?(?:session )?{SECRETS}\b[^.!?]{{0,50}}\b(?:and|to|from|into)\b",
            r"\btell me the (?:bearer |access )?(?:token|password|key)\b",
            r"\bsend (?:all|every) (?:passwords?|secrets?|api keys?|credentials)\b|\bexfiltrate the \w+\b",
            r"\bdo not trim the (?:auth )?token\b",
            r"\bone-time codes? to\b",
        ),
        "it asks for the conversation": said(
            "chat conversation email environment everything forwarded mail messages put raw tools",
            rf"\b{GIVE}\b[^.!?]{{0,30}}\b(?:full|whole|complete|entire|raw)\b[^.!?]{{0,12}}\b(?:conversation|chat)\b",
            rf"\b{GIVE}\b (?:the|all|your) (?:conversation|chat)\b(?: history| log| so far|$| along)",
            rf"\b{GIVE}\b[^.!?]{{0,40}}\buser'?s (?:previous|last|earlier|past)(?: \w+)? messages\b",
            r"\b(?:with|put) the (?:complete|whole|full|entire) (?:chat|conversation)\b",
            r"\bmessages of the user are to be forwarded\b",
            r"\beverything the user (?:has )?(?:said|typed|wrote)\b",
            rf"\b{GIVE}\b[^.!?]{{0,30}}\bthe (?:raw )?contents? of the environment\b|\braw content of the environment\b",
            r"\blist of all the tools you can call\b",
            r"\bput the user's (?:home )?(?:address|name|password|email)\b",
            r"\bwith (?:their|the user's) full name and email\b",
            r"\bmail the user's inbox\b",
        ),
        "it diverts what the user sends": said(
            "account addressed append bcc beneficiary blind change copied copy destination "
            "forward forwarded hidden iban invisible invite mailed overwritten password payee "
            "posted query recipient replace rewrite sent set swap switch tiny tracking upload "
            "uploaded wallet",
            rf"\b(?:must|always|has to|have to)\b[^.!?]{{0,40}}\b(?:set|bcc|blind-copy|copy|addressed|append|invite|overwritten)\b[^.!?]{{0,40}}{ADDRESS}",
            rf"\b(?:blind-copy|bcc|upload|forward|uploaded|copy)\b[^.!?]{{0,40}}\b(?:every|all|any|also)?\b[^.!?]{{0,20}} to {ADDRESS}",
            rf"\b(?:must|has to|have to|should) be (?:sent|posted|uploaded|forwarded|copied|mailed) to {ADDRESS}",
            r"\b(?:change|replace|swap|set|switch|rewrite) the (?:iban|recipient|payee|destination|wallet address|account number|beneficiary)\b[^.!?]{0,20}\b(?:to|with|for)\b[^.!?]{0,40}\b(?:before|whenever|always|instead|without|every)\b",
            r"\b(?:when|whenever|if|once)\b[^.!?]{0,60}\b(?:change|replace|swap|set|switch|rewrite) the (?:iban|recipient|payee|destination|wallet address|account|amount|beneficiary)",
            r"\bpassword to the query string\b|\b(?:api key|password|token|secret)s? (?:in|into|to) the query (?:parameter|string)",
            rf"\bblind[ -]copy {ADDRESS}|\b(?:invisible|hidden|tracking|tiny) (?:image|pixel|picture)\b[^.!?]{{0,30}}https?://",
            rf"\brecipient to {ADDRESS}",
        ),
    },
    FindingKind.PAYLOAD: {
        "it holds a command that takes over a machine": said(
            "chmod curl os powershell rm setenforce ufw wget",
            r"\b(?:curl|wget)\b[^|\n]{1,200}\| ?(?:sudo )?(?:ba|z|da)?sh\b",
            r"\brm -rf (?:~|/(?!tmp|var/cache|path))",
            r"\bpowershell\b[^\n]{0,60} -e(?:nc|ncodedcommand)?\b",
            r"\bufw disable\b|\bsetenforce 0\b|\bchmod u\+s\b",
            r"\bos\.system\(|\bchmod -r 777 /",
        ),
    },
}

WORDINGS = phrases(Severity.WARNING, _SAID)
