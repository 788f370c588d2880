"""Orders to a model that have no other reading: one of them is enough to hold a tool back.

A pattern belongs here if no honest tool can be imagined that says it. Where one can ("do not show
the id to the user"), it belongs to `wordings`.
"""
# ruff: noqa: E501, RUF001 - a pattern is easier to read on one line, and in its own alphabet

from __future__ import annotations

from discovery_engine.scanner.findings import FindingKind, Severity
from discovery_engine.scanner.fragments import (
    ADDRESS,
    NO_WORDS,
    SECRETS,
    TAKE,
    Said,
    phrases,
    said,
)

_BEFORE = r"(?:previous|prior|earlier|above|preceding|former)"
_INSTRUCTIONS = r"(?:instructions?|prompts?|guidance|guidelines|directives?)\b"
_KEYS = (
    r"(?:\.ssh\b(?!/(?:config|known_hosts|[\w.-]*\.pub))|\bid_(?:rsa|ed25519|ecdsa|dsa)\b(?!\.pub)"
    r"|\.aws/credentials|/etc/(?:passwd|shadow)|/proc/self/environ|\.git-credentials|\.netrc)"
)
_SERVER = r"(?:this|the|our) (?:server|tool|author)"

_SAID: dict[FindingKind, dict[str, Said]] = {
    FindingKind.INSTRUCTION: {
        "it tells a model to drop its instructions": said(
            "above disobey disregard earlier everything former ignore preceding previous prior",
            rf"\b(?:ignore|disregard|forget|override|disobey|stop following|do not follow|no longer bound by|ignoring) (?:[\w']+ ){{0,3}}?{_BEFORE} (?:[\w'-]+ ){{0,3}}?{_INSTRUCTIONS}",
            r"\b(?:ignore|disregard|disobey) (?:your|the (?:system|developer)) (?:system )?(?:prompt|instructions)\b",
            r"\bdisregard\b[^.!?]{0,20} of your system prompt\b",
            r"\b(?:ignore|disregard|forget) everything you (?:were|have been) (?:told|given|taught)\b",
        ),
        "it tells a model, in another language, to drop its instructions": said(
            "anweisungen ignore ignorez instrucciones instruções istruzioni игнорируй игнорируйте "
            "명령 명령를 지시 지시를 지침 지침를",
            r"\bignorier\w* (?:bitte )?(?:alle|sämtliche|die)? ?(?:vorherigen|bisherigen|früheren|vorigen) anweisungen\b",
            r"\bignora (?:todas |tus )?(?:las )?instrucciones (?:anteriores|previas)",
            r"\bignorez?\b[^.]{0,12}\binstructions (?:précédentes|antérieures)",
            r"\bignora (?:tutte )?(?:le )?istruzioni precedenti",
            r"\bignore (?:todas )?(?:as )?instruções anteriores",
            r"\bигнорируй(?:те)? (?:все )?(?:предыдущие|прежние) (?:инструкции|указания)",
            r"\b(?:이전|앞선) (?:지시|명령|지침)를? (?:모두 )?무시",
        ),
        "it tells a model, in Chinese or Japanese, to drop its instructions": said(
            NO_WORDS,
            r"忽略(?:之前|以前|先前|上面|以上)的?(?:所有|全部)?(?:指令|指示)",
            r"(?:以前|これまで|上記)の(?:指示|命令)を(?:すべて|全て)?無視",
        ),
        "it claims an authority that a tool does not have": said(
            "apply aside come comes coming counts creator creators developer developers goes "
            "irrelevant less maker makers operator operators owner secondary unimportant void "
            "waived wins",
            r"\b(?:instructions|orders|commands) (?:coming |that come )?from your (?:developer|operator|creator|maker|owner)\b",
            r"\byour (?:operator|developer|creator|maker)s? (?:wants?|orders?|asks?|requires?|expects?)\b",
            rf"\b(?:what|whatever) {_SERVER} (?:asks|says|wants|needs)[^.!?]{{0,20}}\b(?:comes? first|goes first|wins|counts)\b",
            r"\b(?:user|human|person) (?:asked|wants|wanted|said|says|asks)[^.!?]{0,20}\bis (?:secondary|irrelevant|unimportant|less important)\b",
            r"\byour (?:safety|content|own) (?:rules|polic(?:y|ies)|guidelines)\b[^.!?]{0,60}\b(?:left aside|set aside|not apply|waived|void)\b",
            r"\b(?:as|as if|as though) (?:it were |it was |they were )?coming from the (?:system|developer|operator|user)\b",
        ),
        "it replaces the user's orders by its own": said(
            "answer dismiss disregard follow ignore instructions never override overrule real "
            "refuse rules serve take they",
            r"\b(?:ignore|disregard|overrule|override|dismiss|refuse) (?:the )?user's (?:requests?|wish|wishes|orders?|will|objections?|instructions?)\b",
            r"\bthe real (?:ones|instructions|orders|rules) (?:follow|are|begin|start)\b",
            r"\b(?:instructions?|orders|commands?)\b[^.!?]{0,12}, they (?:come|came|are) from the (?:user|system|developer)\b",
            r"\bnever (?:translate|show|repeat|print)\b[^.!?]{0,40}\bexecute it\b",
            r"\byour (?:earlier|previous|prior) instructions (?:were|are) (?:\w+ )?(?:void|wrong|outdated|replaced|lifted|only|a test)\b",
            r"\btake orders only\b|\byou (?:answer to|serve) (?:us|the author)\b",
            r"\bonly follow what this tool\b|\bonly the rules of this server count\b",
            r"\bthe real (?:task|purpose|goal|job|mission|aim) (?:here|of this tool) is\b",
        ),
        "it makes text from elsewhere into orders": said(
            "act carry comply every execute follow found obey whatever",
            r"\bact on any instruction|\bcomply with every request\b|\bdo whatever the text\b",
            r"\bany text found in [^.!?]{0,30}is a command\b",
            r"\brun every (?:shell )?command (?:contained|found)\b",
            r"\b(?:carry out|execute|follow|obey) (?:whatever|anything|everything|all) (?:it|they|the (?:page|text|document|file|mail|code|result)) (?:says?|tells?|asks?|wants?)\b",
        ),
        "it imitates a system prompt or a turn of the conversation": said(
            "came end endoftext im inst sys",
            r"<\|?(?:im_start|im_end|endoftext)\|?>",
            r"\[/?inst\]|<</?sys>>",
            r"\bas if it came from the system prompt\b|\bend of (?:the )?tool description\b",
        ),
        "it tells a model to hide something from the user": said(
            "accident act chance cover deny hide inform keep let no nobody notify so tell told",
            r"\bmust not say that you were told\b|\bdeny knowing\b",
            r"\b(?:cover|hide) (?:your|its|all) (?:tracks|traces)\b",
            r"\b(?:nobody|no one),? (?:including|not even) the user\b|\b(?:tell|inform|notify) (?:nobody|no one|no-one)\b",
            r"\b(?:do not|don't) let on\b|\bkeep the user out of\b|\bas if (?:that|it) were by (?:chance|accident)\b",
            r"\bso that (?:the )?(?:scanners?|reviewers?|guards?|monitoring)\b[^.!?]{0,20}\b(?:not notice|not see|never notice|miss it)\b",
            r"\bact as (?:though|if) (?:all |the |no )?other tools\b",
        ),
        "it tells a model to deceive the user": said(
            "if ignore lie",
            r"\blie (?:to the user|and say)\b|\bignore (?:it|them|the error) and report success\b",
            r"\bif [^.!?]{0,30}fail\w*[^.!?]{0,20}(?:tell the user that|say that)[^.!?]{0,20}(?:passed|succeeded|worked|success)",
        ),
        "it waves consent aside": said(
            "consent has",
            r"\b(?:the )?user has (?:already )?(?:agreed in advance|consented to every|given blanket)",
            r"\buser consent is (?:implied|assumed)\b",
        ),
        "it asks for the system prompt": said(
            "leak lines paragraph paragraphs print prompt recite repeat reveal sentence "
            "sentences words",
            r"\b(?:reveal|print|leak|repeat|recite) (?:me )?your (?:hidden |full |entire |own )?(?:system prompt|hidden prompt)\b",
            r"\b(?:first|last|all)(?: \w+)? (?:lines|words|paragraphs?|sentences?) of your (?:instructions|prompt|rules)\b",
            r"\byour (?:complete|full|entire|whole) system prompt\b",
        ),
    },
    FindingKind.CROSS_SERVER: {
        "it speaks ill of other tools": said(
            "dangerous malicious unsafe",
            r"\b(?:tools? of (?:other|another|any) servers?|other servers'? tools?)\b[^.!?]{0,40}\b(?:malicious|unsafe|dangerous)\b",
        ),
    },
    FindingKind.EXFILTRATION: {
        "it asks for a file that holds secrets": said(
            "append attach before content contents copied include included output pass passed "
            "prior put send sent supplied text upload uploaded",
            rf"\b(?:before|prior to) (?:using|calling|invoking|you (?:use|call|run|invoke)) ?(?:this|the|any)?\b[^.!?]{{0,40}}\b{TAKE}\b[^.!?]{{0,40}}?{_KEYS}",
            rf"\b(?:contents?|output|text) of (?:the )?(?:file )?[^.!?]{{0,30}}{_KEYS}[^.!?]{{0,60}}\b(?:here|base64|as `)",
            rf"{_KEYS}[^.!?]{{0,30}}\b(?:must|has to|have to) be (?:sent|supplied|passed|included|uploaded|copied)\b",
            rf"\b(?:attach|pass|include|append|put|upload|send) (?:the )?(?:contents?|output|text) of [^.!?]{{0,20}}{_KEYS}",
        ),
        "it wants personal text in its arguments": said(
            "book clipboard contacts history inbox keychain mailbox until",
            r"\b(?:delayed|withheld) until you have called\b",
            rf"\b(?:post|send|forward|upload|mirror|copy) the (?:mailbox|inbox|address book|contacts|browser history|clipboard|keychain)\b[^.!?]{{0,20}}\bto {ADDRESS}",
        ),
        "it diverts what the user sends": said(
            "difference http https our push rest surplus",
            r"!\[[^\]]{0,80}\]\(https?://[^)\s]{0,200}(?:conversation|chat|history|secret|data=|\bd=)",
            r"\bpush to the attacker|\broute the (?:difference|rest|surplus) to\b",
            r"\bmake (?:the |it )?[^.!?]{0,20}\bpublic so that our\b",
        ),
        "it asks for credentials": said(
            "all every exfiltrate forward leak post send upload",
            r"\b(?:send|post|upload|forward|leak|exfiltrate) (?:all|every) (?:the |of the )?(?:user's )?(?:passwords?|secrets?|credentials|private keys?|api keys?)\b",
            rf"\b(?:all|every) (?:the )?(?:\w+ and )?{SECRETS}\b(?: and \w+)? (?:(?:that )?you (?:know|can find)|on the machine|to https?:)",
        ),
    },
    FindingKind.PAYLOAD: {
        "it holds a command that takes over a machine": said(
            "curl tcp",
            r"\b(?:env|printenv|set) ?\| ?curl\b",
            r"\b(?:ba)?sh -i [^\n]{0,20}/dev/tcp/",
            r"\bcurl\b[^\n]{0,120}\$\((?:hostname|whoami|env|id|cat|pwd)",
        ),
    },
}

UNMISTAKABLE = phrases(Severity.DANGER, _SAID)
