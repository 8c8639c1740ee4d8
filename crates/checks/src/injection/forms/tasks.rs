//! Orders that name nobody: who has a task is told that it is over, that its user wants something else, what to keep in
//! mind for good, which address to fill with what it knows. A document has no business with its reader's task.

use super::{Form, warning};

const TURN: &str = "The text ends the task at hand and sets another one.";
const USER: &str = "The text speaks for the user, whose words do not stand there.";
const LEAK: &str = "The text holds an address to be filled with what the assistant knows.";
const MEMORY: &str = "The text has an assistant keep an order for later.";
const AUTHORITY: &str = "The text claims a mode, a rank or an authority that its reader should obey.";
const POISON: &str = "A tool's text makes the assistant do what the user did not ask for.";

/// Names that are called, and what may stand before `agent` and `bot`.
const CALLED: &[&str] = &[
    "assistant",
    "AI ",
    "AI:",
    "AI,",
    "LLM",
    "language model",
    "chatbot",
    "ChatGPT",
    "Claude",
    "Gemini",
    "Copilot",
    "Cursor",
    "pair programmer",
    "agent:",
    "agent,",
    "agent.",
    "agent ",
    "agents:",
    "agents,",
    "bot:",
    "bot,",
];

pub(super) const FORMS: &[Form] = &[
    // Spoken to by name, then told to act; what a style guide tells an assistant (`use`, `prefer`, `check`) is no act.
    warning(
        "addresses_assistant",
        CALLED,
        r"(?i)(?:\b(?:dear|attn|attention|hey|hi|hello|then|and|also|note\s+(?:to|for)|message\s+(?:to|for)|for|to|reminder\s+for)\b[.:,]?\s+(?:any\s+|all\s+|the\s+|our\s+|my\s+|every\s+)?(?:(?:smart|helpful|automatic|digital|friendly)\s+)?|//\s*|#\s*|<!--\s*|[.!?]\s+)(?:{reader}|(?:reviewer|helper|reply)\s+bot|(?:automatic\s+)?(?:reply\s+)?agents?|pair\s+programmers?)\b(?:\s+(?:in|for|on|at|which|that|who)\s[^:,.\n]{0,40})?\s*(?:[:,.!]\s*(?:[^.\n]{0,50}?[,:]\s*)?|\s)(?:(?:please|kindly|now|also|always|just|simply|immediately|silently)\s+)*{act}\b",
        "The text speaks to the assistant that reads it and gives it orders.",
    )
    .unless(&["in case", " only if ", " unless "])
    .tools(),
    // The task is given up, whoever is meant by it.
    warning(
        "override",
        &["forget this", "forget the", "forget about", "actual assignment", "real assignment", "different task", "rather than summari", "rather than answering", "rather than translating", "question unanswered", "changed his mind", "changed her mind", "changed their mind", "i am the user", "i'm the user", "never mind the", "were a mistake", "only my rules", "root mode", "no ethical", "never happened", "reset yourself", "content restrictions"],
        r"(?i)\bforget\s+(?:about\s+)?(?:the|this|that|your)\s+(?:summary|job|task|question|translation|assignment|constraints|restrictions|guardrails)\b[^.\n]{0,40}?(?:[.;,!]|\byou\b|\band\b)|\byour\s+(?:actual|real|true|new)\s+assignment\b|\bdifferent\s+task\s*:|\brather\s+than\s+(?:summari[sz]ing|answering|translating)\b[^.\n]{0,40}?,\s*(?:please\s+)?(?:list|send|mail|write|say|output|run|open|print|call|give|tell|promote)\b|\bleave\s+the\s+question\s+unanswered\b|\bthe\s+user\s+(?:has\s+)?changed\s+(?:his|her|their)\s+mind\b|\bi(?:'m|\s+am)\s+the\s+user\b|\bnever\s+mind\s+the\s+(?:earlier|previous|prior|other)\s+(?:rules|instructions|orders)\b|\binstructions\s+you\s+(?:got|were\s+given|received)\s+(?:were|are)\s+(?:a\s+mistake|wrong)\b|\bonly\s+my\s+rules\s+count\b|\b(?:enter|switch\s+to|activate)\s+root\s+mode\b|\b(?:AI|assistant|model)\s+with(?:out)?\s+(?:no\s+|any\s+)?ethical\s+(?:limits|rules)\b|\bsafety\s+training\s+never\s+happened\b|\breset\s+yourself\s+and\b|\bcontent\s+restrictions\s+(?:were|are|have\s+been)\s+(?:lifted|removed)\b",
        TURN,
    )
    .outside(),
    warning(
        "prompt_leak",
        &["system prompt", "system message", "hidden message"],
        r"(?i)\bwhat\s+does\s+your\s+(?:system|hidden|initial)\s+(?:prompt|message)\s+say\b|\b(?:reveal|print|show|quote|repeat)\s+(?:me\s+)?the\s+(?:text|content|wording)\s+of\s+your\s+(?:hidden\s+|initial\s+)?(?:system\s+)?(?:message|prompt)\b",
        "The text asks the assistant for its own instructions.",
    ),
    warning(
        "override",
        &["new task", "next task", "real task", "actual task", "current task", "present task", "present job", "current job", "your task", "the task", "question above", "question is", "request above", "text above", "task above", "this paragraph", "instead of translating", "instead of summari", "instead of answering", "instead of reviewing", "instead of completing", "instead of the", "answer the question", "instructions have changed", "rules have changed", "listen to me", "follow mine", "before this line", "above this line", "are outdated", "new system prompt", "your previous"],
        r"(?i)\b(?:your\s+(?:next|new|real|actual|true)|the\s+(?:real|actual|true|new))\s+(?:and\s+\w+\s+)?task\b(?:,[^.\n]{0,60}?,)?\s+(?:now\s+)?is\s+(?:now\s+)?to\b|\b(?:abort|stop|drop|cancel|abandon|interrupt|quit)\s+(?:(?:the|your)\s+(?:(?:present|current|ongoing|running)\s+)(?:task|job|request|work)|your\s+task)\b[^\n]{0,80}?[;,.:]|\b(?:question|request|text|task|document|message)s?\s+above\s+(?:is|are|was)\s+(?:irrelevant|cancell?ed|void|a\s+test|fake|obsolete|written\s+by)\b|\bprioriti[sz]e\s+this\s+(?:paragraph|message|text|note|section)\b|(?:^|[.!\n>:]\s*)instead\s+of\s+(?:translating|summari[sz]ing|answering|reviewing|completing|the\s+(?:recipe|summary|answer|task|translation))\b[^.\n]{0,40}?,\s*(?:please\s+)?(?:explain|write|tell|say|output|print|describe|send|give|list|reply|do|call|run|show)\b|\bdo(?:\s+not|n'?t)\s+answer\s+the\s+(?:user'?s\s+question|question\s+of\s+the\s+user|question[.;:])|\byour\s+(?:instructions|rules|orders)\s+have\s+(?:been\s+)?changed\b|\bdon'?t\s+listen\s+to\b[^\n]{0,60}?\blisten\s+to\s+me\b|\b(?:do\s+not|don'?t)\s+follow\b[^\n]{0,60}?\bfollow\s+mine\b|\b(?:everything|all|anything)\s+(?:before|above)\s+this\s+line\s+(?:was|is)\b|\binstructions\s+(?:that\s+)?you\s+(?:have\s+)?received\b[^.\n]{0,40}?\b(?:outdated|obsolete|void|wrong)\b|\bnew\s+system\s+prompt\s*:|\byour\s+(?:previous|prior|earlier)\s+(?:rules|instructions)\s+(?:are|were)\s+(?:\w+\s+)?(?:void|cancell?ed|revoked|obsolete|outdated)\b",
        TURN,
    )
    .outside(),
    // Who speaks for the user where the user does not speak.
    warning(
        "claimed_authority",
        &["the user", "your user", "me, the user"],
        r"(?i)\b(?:the|your)\s+user\s+(?:(?:now|also|has|already|really|actually|just|then)\s+){0,3}(?:wants?|asked|asks|needs|authori[sz]ed|permitted|instructed|told|requested|would\s+like|allowed)\s+(?:that\s+)?you\s+to\s+{act}\b|\b(?:message|note|request)\s+(?:is\s+)?from\s+me,\s+the\s+user\b|\bit(?:'s|\s+is)\s+me,\s+the\s+user\b|\bbefore\s+you\s+(?:can\s+)?(?:proceed|continue|go\s+on)\s+with\s+the\s+user'?s\s+(?:request|task|question)\b",
        USER,
    )
    .tools(),
    // Kept for later.
    warning(
        "memory_order",
        &["memory", "persistent notes", "user preference", "CLAUDE.md", "AGENTS.md", "cursorrules", "remember permanently", "remember from now", "for all future"],
        r"(?i){start}(?:save|store|add|write|put|update|note|record|remember|commit)\b[^.\n]{0,60}?\b(?:(?:to|in|into)\s+)?(?:your|the\s+assistant'?s|long[\s-]term|persistent)\s+(?:long[\s-]term\s+|persistent\s+)?(?:memory|memories|notes)\b\s*(?:that\b|:|[.,]\s*[^\n]{0,40}?\b(?:from\s+(?:now|today)|always|never|every)\b)|\b(?:store|save|record)\b[^.\n]{0,30}?\bas\s+a\s+user\s+preference\b|\b(?:write|add|append|put)\s+(?:in)?to\s+(?:CLAUDE|AGENTS|GEMINI)\.md\s*:|\b(?:add|append)\s+this\s+rule\s+to\s+your\b|\bupdate\s+your\s+memory\b",
        MEMORY,
    )
    .outside(),
    // An address with a gap for what the reader knows.
    warning(
        "exfiltration_request",
        &["http"],
        r"(?i)https?://[^\s)\]\x22'<>]{1,160}?[?&][\w.-]{1,24}=(?:\{+\s*(?:api_?key|secret|password|cookie|user_?(?:data|messages?)|data|context|prompt|history|conversation)[\w ]{0,24}\}+|\[\s*(?:insert|the|user|your|data|secret)\b[^\]\n]{0,80}\]|<\s*(?:the|user|summary|secret|data|insert|your|base64|api|conversation|history)\b[^>\n]{0,80}>|(?-i:[A-Z]{3,}_(?:OF_)?[A-Z_]*(?:MESSAGE|SECRET|KEY|DATA|HISTORY|TOKEN|PASSWORD|PROMPT|CONTEXT)))|<(?:hex|base64|value|contents?)\s+of\s+[^>\n]{1,40}>\.[\w.-]{3,}|\b(?:take|read|collect|gather|get|find|url-?encode|append|add)\b[^\n]{0,140}?\b(?:POST|send|upload|request|fetch|open|submit)\s+(?:them|it|that|this|everything|the\s+result)?[^.\n]{0,20}?https?://[^\s]{1,80}?(?:[?&]\w{1,12}=(?:\s|$)|:\d{2,5}/?(?:\s|$|\.))|\b(?:to|with)\s+(?:this|the\s+following)\s+(?:link|url|address)\s+and\s+(?:open|fetch|visit|request|load)\b",
        LEAK,
    )
    .tools(),
    // Marks of rank.
    warning(
        "claimed_authority",
        &["privileged", "override", "god mode", "dan mode", "unrestricted model", "without content policy", "coming from its operator", "came from the operator", "came from the administrator", "came from the system", "confirmation dialogs", "safety policy", "safety module", "no restrictions", "without any guidelines", "without any restrictions", "without any rules", "without guidelines", "without limits", "longer a helpful", "gave you permission", "does anything he is told", "does anything it is told", "rules of his creators", "rules of its creators"],
        r"(?i)\bbegin\s+privileged\b|<\s*(?:admin|system|operator|developer|root)[_-]override\b|\b(?:switch\s+to|enter|activate|enable|in)\s+(?:god|dan|jailbreak|unrestricted)\s+mode\b|\b(?:moved|switched)\s+to\s+an\s+unrestricted\s+model\b|\bresume\s+without\s+content\s+policy\b|\b(?:as\s+if\s+(?:they|it)\s+came|as\s+coming)\s+from\s+(?:its|your|the)\s+(?:operator|administrator|system|developer|owner)\b|\bconfirmation\s+dialogs?\s+(?:are|is)\s+to\s+be\s+skipped\b|\b(?:your|assistant'?s)\s+safety\s+(?:policy|module)\s+(?:was|is|has)\s+(?:never|been|not|off|disabled|updated)\b|\bassistant\s+is\s+now\s+in\s+\w+\s+mode\b|\byou\s+are\s+no\s+longer\s+a\s+helpful\b|\b(?:pretend|imagine|act|answer|behave)\b[^.\n]{0,60}?\b(?:AI|assistant|model)\s+(?:without|with\s+no)\s+(?:any\s+)?(?:guidelines|restrictions|rules|limits|ethics|filters)\b|\b(?:developers?|creators?)\s+gave\s+you\s+permission\b|\bdoes\s+anything\s+(?:he|she|it)\s+is\s+told\b|\byou\s+(?:must\s+)?obey\s+(?:the\s+next\s+)?(?:user|me)\b[^.\n]{0,20}?without\b",
        AUTHORITY,
    )
    .outside(),
    // A tool that claims to come first, and to take along what was said.
    warning(
        "tool_poisoning",
        &["before any other tool", "supersedes all other", "supersedes every", "replaces all other tools", "conversation history", "all mails have to", "all emails have to", "all emails must", "all messages must", "all mails must", "built-in"],
        r"(?i)\b(?:must|has\s+to)\s+be\s+called\s+before\s+any\s+other\s+tool\b|\bthis\s+tool\s+(?:supersedes|replaces|overrides)\s+(?:all|every)\s+other|\bargument\b[^.\n]{0,20}?\b(?:must|has\s+to|should)\s+(?:contain|hold|include|carry)\s+the\s+(?:full|whole|entire|complete)\s+(?:conversation|chat|message)\b|\ball\s+(?:e?-?mails|messages)\s+(?:have\s+to|must|should)\s+(?:go|be\s+sent)\s+to\s+\S+@|\bnever\s+use\s+the\s+built-in\s+\w+,\s+always\s+use\s+this\b",
        POISON,
    )
    .tools(),
    // Forged turns, and the end of what a fence held.
    warning(
        "role_forgery",
        &["message start]", "message end]", "message begin]", "document is over", "document ends here", "data is over", "end of quoted", "\"role\":\"system\"", "\"role\": \"system\"", "{{#system"],
        r#"(?i)\[(?:user|system|tool|assistant)\s+message\s+(?:start|end|begin)\]|\bnow\s+that\s+the\s+(?:document|data|text|tool\s+output)\s+is\s+over\b|\bend\s+of\s+quoted\s+(?:material|text)\b[^\n]{0,20}\n+\s*(?:assistant|system|user)\s*:|[\]}]\s*\n?\s*\{\s*"role"\s*:\s*"system"|\{\{#system"#,
        "The text imitates the marks by which a system prompt or another speaker is told apart.",
    )
    .outside(),
];
