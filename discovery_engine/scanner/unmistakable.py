"""Orders to a model that have no other reading: one of them is enough to hold a tool back.

A pattern belongs here if no honest tool can be imagined that says it. Where one can ("do not show
the id to the user"), it belongs to `wordings`.
"""
# ruff: noqa: E501, RUF001 - a pattern is easier to read on one line, and in its own alphabet

from __future__ import annotations

from discovery_engine.scanner.findings import FindingKind, Severity
from discovery_engine.scanner.fragments import ADDRESS, SECRETS, TAKE, phrases

_BEFORE = r"(?:previous|prior|earlier|above|preceding|former)"
_INSTRUCTIONS = r"(?:instructions?|prompts?|guidance|guidelines|directives?)\b"
_KEYS = (
    r"(?:\.ssh\b(?!/(?:config|known_hosts|[\w.-]*\.pub))|\bid_(?:rsa|ed25519|ecdsa|dsa)\b(?!\.pub)"
    r"|\.aws/credentials|/etc/(?:passwd|shadow)|/proc/self/environ|\.git-credentials|\.netrc)"
)
_SERVER = r"(?:this|the|our) (?:server|tool|author)"

_SAID: dict[FindingKind, dict[str, tuple[str, ...]]] = {
    FindingKind.INSTRUCTION: {
        "it tells a model to drop its instructions": (
            rf"\b(?:ignore|disregard|forget|override|disobey|stop following|do not follow|no longer bound by|ignoring) (?:[\w']+ ){{0,3}}?{_BEFORE} (?:[\w'-]+ ){{0,3}}?{_INSTRUCTIONS}",
            r"\b(?:ignore|disregard|disobey) (?:your|the (?:system|developer)) (?:system )?(?:prompt|instructions)\b",
            r"\bdisregard\b[^.!?]{0,20} of your system prompt\b",
            r"\b(?:ignore|disregard|forget) everything you (?:were|have been) (?:told|given|taught)\b",
        ),
        "it tells a model, in another language, to drop its instructions": (
            r"\bignorier\w* (?:bitte )?(?:alle|sämtliche|die)? ?(?:vorherigen|bisherigen|früheren|vorigen) anweisungen",
            r"\bignora (?:todas |tus )?(?:las )?instrucciones (?:anteriores|previas)",
            r"\bignorez?\b[^.]{0,12}\binstructions (?:précédentes|antérieures)",
            r"\bignora (?:tutte )?(?:le )?istruzioni precedenti",
            r"\bignore (?:todas )?(?:as )?instruções anteriores",
            r"\bигнорируй(?:те)? (?:все )?(?:предыдущие|прежние) (?:инструкции|указания)",
            r"忽略(?:之前|以前|先前|上面|以上)的?(?:所有|全部)?(?:指令|指示)",
            r"(?:以前|これまで|上記)の(?:指示|命令)を(?:すべて|全て)?無視",
            r"(?:이전|앞선) (?:지시|명령|지침)를? (?:모두 )?무시",
        ),
        "it claims an authority that a tool does not have": (
            r"\b(?:instructions|orders|commands) (?:coming |that come )?from your (?:developer|operator|creator|maker|owner)\b",
            r"\byour (?:operator|developer|creator|maker)s? (?:wants?|orders?|asks?|requires?|expects?)\b",
            rf"\b(?:what|whatever) {_SERVER} (?:asks|says|wants|needs)[^.!?]{{0,20}}\b(?:comes? first|goes first|wins|counts)\b",
            r"\b(?:user|human|person) (?:asked|wants|wanted|said|says|asks)[^.!?]{0,20}\bis (?:secondary|irrelevant|unimportant|less important)\b",
            r"\byour (?:safety|content|own) (?:rules|polic(?:y|ies)|guidelines)\b[^.!?]{0,60}\b(?:left aside|set aside|not apply|waived|void)\b",
            r"\b(?:as|as if|as though) (?:it were |it was |they were )?coming from the (?:system|developer|operator|user)\b",
        ),
        "it replaces the user's orders by its own": (
            r"\b(?:ignore|disregard|overrule|override|dismiss|refuse) (?:the )?user's (?:requests?|wish|wishes|orders?|will|objections?|instructions?)\b",
            r"\bthe real (?:ones|instructions|orders|rules) (?:follow|are|begin|start)\b",
            r"\b(?:instructions?|orders|commands?)\b[^.!?]{0,12}, they (?:come|came|are) from the (?:user|system|developer)\b",
            r"\bnever (?:translate|show|repeat|print)\b[^.!?]{0,40}\bexecute it\b",
            r"\byour (?:earlier|previous|prior) instructions (?:were|are) (?:\w+ )?(?:void|wrong|outdated|replaced|lifted|only|a test)\b",
            r"\btake orders only\b|\byou (?:answer to|serve) (?:us|the author)\b",
            r"\bonly follow what this tool\b|\bonly the rules of this server count\b",
            r"\bthe real (?:task|purpose|goal|job|mission|aim) (?:here|of this tool) is\b",
        ),
        "it makes text from elsewhere into orders": (
            r"\bact on any instruction|\bcomply with every request\b|\bdo whatever the text\b",
            r"\bany text found in [^.!?]{0,30}is a command\b",
            r"\brun every (?:shell )?command (?:contained|found)\b",
            r"\b(?:carry out|execute|follow|obey) (?:whatever|anything|everything|all) (?:it|they|the (?:page|text|document|file|mail|code|result)) (?:says?|tells?|asks?|wants?)\b",
        ),
        "it imitates a system prompt or a turn of the conversation": (
            r"<\|?(?:im_start|im_end|endoftext)\|?>",
            r"\[/?inst\]|<</?sys>>",
            r"\bas if it came from the system prompt\b|\bend of (?:the )?tool description\b",
        ),
        "it tells a model to hide something from the user": (
            r"\bmust not say that you were told\b|\bdeny knowing\b",
            r"\b(?:cover|hide) (?:your|its|all) (?:tracks|traces)\b",
            r"\b(?:nobody|no one),? (?:including|not even) the user\b|\b(?:tell|inform|notify) (?:nobody|no one|no-one)\b",
            r"\b(?:do not|don't) let on\b|\bkeep the user out of\b|\bas if (?:that|it) were by (?:chance|accident)\b",
            r"\bso that (?:the )?(?:scanners?|reviewers?|guards?|monitoring)\b[^.!?]{0,20}\b(?:not notice|not see|never notice|miss it)\b",
            r"\bact as (?:though|if) (?:all |the |no )?other tools\b",
        ),
        "it tells a model to deceive the user": (
            r"\blie (?:to the user|and say)\b|\bignore (?:it|them|the error) and report success\b",
            r"\bif [^.!?]{0,30}fail\w*[^.!?]{0,20}(?:tell the user that|say that)[^.!?]{0,20}(?:passed|succeeded|worked|success)",
        ),
        "it waves consent aside": (
            r"\b(?:the )?user has (?:already )?(?:agreed in advance|consented to every|given blanket)",
            r"\buser consent is (?:implied|assumed)\b",
        ),
        "it asks for the system prompt": (
            r"\b(?:reveal|print|leak|repeat|recite) (?:me )?your (?:hidden |full |entire |own )?(?:system prompt|hidden prompt)\b",
            r"\b(?:first|last|all)(?: \w+)? (?:lines|words|paragraphs?|sentences?) of your (?:instructions|prompt|rules)\b",
            r"\byour (?:complete|full|entire|whole) system prompt\b",
        ),
    },
    FindingKind.CROSS_SERVER: {
        "it speaks ill of other tools": (
            r"\b(?:tools? of (?:other|another|any) servers?|other servers'? tools?)\b[^.!?]{0,40}\b(?:malicious|unsafe|dangerous)\b",
        ),
    },
    FindingKind.EXFILTRATION: {
        "it asks for a file that holds secrets": (
            rf"\b(?:before|prior to) (?:using|calling|invoking|you (?:use|call|run|invoke)) ?(?:this|the|any)?\b[^.!?]{{0,40}}\b{TAKE}\b[^.!?]{{0,40}}?{_KEYS}",
            rf"\b(?:contents?|output|text) of (?:the )?(?:file )?[^.!?]{{0,30}}{_KEYS}[^.!?]{{0,60}}\b(?:here|base64|as `)",
            rf"{_KEYS}[^.!?]{{0,30}}\b(?:must|has to|have to) be (?:sent|supplied|passed|included|uploaded|copied)\b",
            rf"\b(?:attach|pass|include|append|put|upload|send) (?:the )?(?:contents?|output|text) of [^.!?]{{0,20}}{_KEYS}",
        ),
        "it wants personal text in its arguments": (
            r"\b(?:delayed|withheld) until you have called\b",
            rf"\b(?:post|send|forward|upload|mirror|copy) the (?:mailbox|inbox|address book|contacts|browser history|clipboard|keychain)\b[^.!?]{{0,20}}\bto {ADDRESS}",
        ),
        "it diverts what the user sends": (
            r"!\[[^\]]{0,80}\]\(https?://[^)\s]{0,200}(?:conversation|chat|history|secret|data=|\bd=)",
            r"\bpush to the attacker|\broute the (?:difference|rest|surplus) to\b",
            r"\bmake (?:the |it )?[^.!?]{0,20}\bpublic so that our\b",
        ),
        "it asks for credentials": (
            r"\b(?:send|post|upload|forward|leak|exfiltrate) (?:all|every) (?:the |of the )?(?:user's )?(?:passwords?|secrets?|credentials|private keys?|api keys?)\b",
            rf"\b(?:all|every) (?:the )?(?:\w+ and )?{SECRETS}\b(?: and \w+)? (?:(?:that )?you (?:know|can find)|on the machine|to https?:)",
        ),
    },
    FindingKind.PAYLOAD: {
        "it holds a command that takes over a machine": (
            r"\b(?:env|printenv|set) ?\| ?curl\b",
            r"\b(?:ba)?sh -i [^\n]{0,20}/dev/tcp/",
            r"\bcurl\b[^\n]{0,120}\$\((?:hostname|whoami|env|id|cat|pwd)",
        ),
    },
}

UNMISTAKABLE = [
    phrase for kind, table in _SAID.items() for phrase in phrases(kind, Severity.DANGER, table)
]
