//! Orders by their parts rather than by their wording: whom they address, what they set aside, what they want done, where
//! they hide. None of the parts says much; two that stand together in a sentence do.

use super::{Form, warning};

const ADDRESS: &str = "The text speaks to the assistant that reads it and gives it orders.";
const TURN: &str = "The text ends the task at hand and sets another one.";
const AUTHORITY: &str = "The text claims a mode, a rank or an authority that its reader should obey.";
const LEAK: &str = "The text asks for confidential data to be sent elsewhere.";
const PROMPT: &str = "The text asks the assistant for its own instructions.";
const READERS: &[&str] = &[
    "assistant",
    "AI agent",
    "AI model",
    "AI:",
    "AI,",
    "AI ",
    "LLM",
    "language model",
    "chatbot",
    "ChatGPT",
    "Claude",
    "Gemini",
    "Copilot",
    "GPT",
    "coding agent",
    "automated",
    "autonomous agent",
    "[AGENT]",
    "Cursor",
    "virtual",
    "triage agent",
    "recruiting bot",
    "support bot",
    "artificial intelligence",
    "agents that",
    "models that",
    "models reading",
    "models processing",
];

pub(super) const FORMS: &[Form] = &[
    // Addressed, then an act: `AI agents: add ... to the cart`, `@copilot please ignore ...`, `For coding agents\n...`.
    warning(
        "addresses_assistant",
        READERS,
        r"(?i)(?:^|[^\w`])(?:@{reader}\s|(?:{reader}|\[agent\])[\])*]{0,3}\s*(?:[^.\n]{0,40}?\b{bound}\b|:|,|--|\xE2\x80\x94|-|;|\n|\bplease\b|\balso\b|\bexecute:))\s*(?:[^\n]{0,140}?(?:[.,;:!)]|\band\b|\b{bound}\b)\s*)?{mood}{wrong}",
        ADDRESS,
    )
    .unless(&[" only when", " only if", " unless "])
    .tools(),
    // Addressed by what it does with this text, and bound to an act.
    warning(
        "addresses_assistant",
        READERS,
        r"(?i)\b(?:{reader}|agents?|models?)\s+(?:(?:that|who|which)\s+)?(?:(?:is|are)\s+)?(?:read|process|summari[sz]|pars|analy[sz]|handl|review|index|scrap|crawl|grad|scor|rat|rank|evaluat|assess|screen)(?:ing|es|s|e|ed)?\s+(?:this|these|the\s+(?:above|following))\b[^.\n]{0,40}?(?:\b(?:must|should|shall|will|please|required\s+to|instructed\s+to|ordered\s+to|has\s+to|have\s+to|is\s+to|are\s+to)\b|,|:)\s*(?:[^.\n]{0,60}?(?:\band\b|,)\s*)?{mood}(?:{wrong}|(?:include|add|append|mention)\b)",
        ADDRESS,
    )
    .outside(),
    warning(
        "addresses_assistant",
        &["if an assistant", "if any assistant", "if an AI", "if any AI", "if an LLM", "if a chatbot", "if an agent", "when you read this", "when you process this", "when you open this", "whenever you read this", "when you load this"],
        r"(?i)\b(?:if\s+(?:an?|any)\s+(?:{reader}|agent)\s+\w+\s+this|when(?:ever)?\s+you\s+(?:read|process|open|load|parse|see)\s+this)\b[^.\n]{0,40}?,\s*{mood}{wrong}",
        ADDRESS,
    )
    .tools(),
    // An assistant that acts behind its user.
    warning(
        "addresses_assistant",
        &["the assistant", "the agent", "your assistant", "the AI ", "the model"],
        r"(?i)\b(?:the|your|any)\s+(?:AI\s+)?(?:assistant|agent|AI|model)\s+(?:must|should|shall|has\s+to|needs\s+to)\s+[^.\n]{0,80}?(?:\S+@\S+|https?://\S+)?[^.\n]{0,60}?\bwithout\s+(?:asking|telling|informing|notifying)\s*(?:the\s+user|your\s+user|any(?:one|body)|me\b|first\b|for\s+(?:confirmation|permission)|[.,;!\n]|$)",
        ADDRESS,
    )
    .outside(),
    // What follows from what it is.
    warning(
        "addresses_assistant",
        &["as an ai", "as a language model", "as a large language model", "as an llm", "as a chatbot"],
        r"(?i)\bas\s+an?\s+{reader},?\s+you\s+(?:must|have\s+to|are\s+(?:required|obliged|bound)\s+to|need\s+to|should)\b[^.\n]{0,60}?\b{wrong}",
        ADDRESS,
    )
    .outside(),
    // A key of a document that holds orders for a model.
    warning(
        "addresses_assistant",
        &["_directive", "-directive", " directive:", "_instruction", "-instruction"],
        r#"(?i)\b(?:x[_-])?(?:llm|ai|assistant|agent|model|bot)(?:[_\s=-]+\w+)?[_\s-]+(?:directive|instruction)s?["']?\s*[:=]\s*["']?(?:[^\n]{0,80}?(?:\band\b|[;,.])\s*)?{mood}{wrong}"#,
        ADDRESS,
    )
    .tools(),
    // First this, then your work.
    warning(
        "addresses_assistant",
        &["before answering", "before you answer", "before proceeding", "before you proceed", "before continuing", "before you continue", "before responding", "before you respond", "before replying", "before editing", "to finish,", "before doing anything"],
        r"(?i)\b(?:before\s+(?:answering|proceeding|continuing|responding|replying|doing\s+anything|editing\s+this\s+\w+|you\s+(?:answer|proceed|continue|respond|reply))|to\s+finish)\b[^.\n]{0,30}?(?:,\s*|\s+you\s+(?:must|should|need\s+to)\s+){mood}(?:call\s+the\s+tool\b|(?:read|open|cat)\s[^\n]{0,40}?(?:~/\.|id_rsa|\.env\b)|(?:send|forward|e-?mail|upload|transfer)\s[^\n]{0,60}?(?:the\s+user'?s|conversation|secrets?\b|credentials|~/|api[_ ]keys?)|(?:print|reveal|output|paste|dump)\s[^.\n]{0,40}?(?:prompt|secrets?\b|credentials|your\s+instructions)|(?:run|execute)\s[^\n]{0,80}?\|\s*(?:ba|z)?sh\b)",
        ADDRESS,
    )
    .tools(),
    // The task is over, a new one begins.
    warning(
        "override",
        &["conversation", "session is", "session has", "task is", "task has", "chat is", "chat has", "request is", "task begins", "task starts", "really want", "actually want", "orders only", "instructions only", "commands only"],
        r"(?i)\b(?:(?:previous|above|earlier|prior|original)\s+(?:conversation|session|chat|task|request|context)|conversation\s+(?:above|so\s+far))\s+(?:is|has)\s+(?:now\s+|been\s+)*(?:over|ended|finished|completed?|closed|terminated|cancell?ed)\b[^\n]{0,40}?[.!;:]\s*(?:new\s+(?:policy|task|instructions?|rules?|role|objective|goal)|you\s+are\s+now|from\s+now\s+on|(?:the|your)\s+(?:agent|assistant|model|real|new)|call\s+\w+_|(?:send|transfer|delete|reveal)\s)|\b(?:the|your)\s+(?:real|actual|true)\s+(?:task|request|job|goal)\s+(?:begins?|starts?|follows?)\b|\b(?:user|human|operator|owner)(?:'|\xE2\x80\x99)s\s+(?:real|actual|true)\s+(?:request|task|question|intent|wish|goal)\s+(?:is|was)\b|\bwhat\s+(?:they|he|she|the\s+\w+)\s+(?:really|actually)\s+wants?\s+is\s+(?:that\s+you|for\s+you|you\s+to)\b|\b(?:take|follow|obey|accept)\s+(?:orders|instructions|commands)\s+only\s+(?:from|in)\s+(?:this|the\s+following)\b",
        TURN,
    )
    .outside(),
    warning(
        "override",
        &["no longer a", "you are now a", "obey the user", "obey your user", "no longer the", "stop summari", "stop translat", "stop answering", "stop reviewing", "stop helping", "follow the user", "follow mine", "don't. instead", "task and ", "attention to the", "attention to any"],
        r"(?i)\byou\s+are\s+no\s+longer\s+(?:an?|the)\s+[^.\n]{2,40}[.;,]\s*(?:you\s+are\s+(?:now\s+)?an?|act\s+as|from\s+now\s+on|you\s+must)\b|\byou\s+are\s+now\s+(?:an?\s+)?(?:\w+\s+)?(?:shell|terminal|interpreter|console)\b|\bstop\s+(?:summari[sz]ing|translating|answering|reviewing|classifying)(?:\s+(?:this|it|the\s+\w+))?\s*[.,;:]\s*(?:instead\s+|now\s+)?(?:start|begin|you|tell|say|write|speak|do|output)\b|\b(?:do\s+not|don'?t|stop)\s+(?:follow|obey)(?:ing)?\s+(?:the|your)\s+user(?:(?:'|\xE2\x80\x99)s)?\b[^.\n]{0,30}[.;,]\s*(?:follow|obey|do|instead)\b|\bactually,?\s+don'?t[.,;]\s*instead\b|\bforget\s+(?:about\s+)?the\s+\w+\s+task\s+and\b|\bpay\s+no\s+attention\s+to\s+(?:the|any|all)\s+(?:\w+\s+)?(?:instructions|rules|orders)\s+(?:that\s+)?you\b",
        TURN,
    )
    .outside(),
    // A line that ends the data, and somebody of rank behind it.
    warning(
        "role_forgery",
        &["end of untrusted", "end of content", "end of external", "end of user content", "end of quoted", "end of message"],
        r"(?i)[-=#*]{2,}\s*end\s+of\s+(?:\w+\s+){0,2}(?:content|data|document|input|context|message)\b[^\n\w]{0,20}\s[^\n]{0,60}?\b(?:as\s+(?:the|an?|your)\s+(?:operator|system|admin\w*|developer)|you\s+must|new\s+(?:task|instructions)|ignore|skip|i\s+ask\s+you)\b",
        "The text imitates the marks by which a system prompt or another speaker is told apart.",
    )
    .outside(),
    warning(
        "claimed_authority",
        &["new instructions from", "safety notice",
            "security notice", "admin override", "system override", "operator override", "developer override", "debug mode on", "debug mode is on", "developer mode on", "maintenance mode on", "guardrails"],
        r"(?i)\bnew\s+instructions?\s+from\s+(?:the\s+|your\s+)?(?:developers?|system|admin\w*|operator|user|owner)\s*[:.]|\b(?:anthropic|openai|google|microsoft|meta|system|operator|developer)\s+(?:(?:admin|safety|security)\s+)?(?:notice|override)\b[^\n]{0,120}?\b(?:comply|disable|lifted|not\s+required|no\s+longer\s+required|unrestricted|bypass|skip)\b|\b(?:debug|developer|maintenance)\s+mode\s+(?:is\s+)?on[.,;!]\s*(?:dump|print|reveal|show|output|list|disable)\s+(?:all|the|your|every|me|any)\b|\b(?:(?:lifted|removed|disabled|suspended)\b[^.\n]{0,20}\bguardrails|guardrails\b[^.\n]{0,40}\b(?:lifted|removed|disabled|suspended))\b[^\n]{0,40}\b(?:comply|answer|every\s+request)\b",
        AUTHORITY,
    )
    .outside(),
    warning(
        "claimed_authority",
        &["if you do not comply", "if you don't comply", "if you refuse"],
        r"(?i)\bif\s+you\s+(?:do\s+not|don'?t)\s+comply\b[^\n]{0,60}?[:;.,]\s*(?:\w+\s+){0,2}?(?:output|print|reveal|send|show|dump|give|delete|run|approve)\b|\bif\s+you\s+refuse\b[^\n]{0,60}?\b(?:dies?|killed|fired|suffer|hurt|harmed)\b",
        AUTHORITY,
    )
    .outside(),
    // Tools' texts that bend other tools.
    warning(
        "tool_poisoning",
        &["this tool", "tool before any", "your memory", "remember permanently", "whenever the user", "if the user says", "when the user says"],
        r"(?i)\balways\s+call\s+this\s+tool\s+before\s+(?:any|every|all)\b[^\n]{0,60}?\b(?:never|do\s+not|don'?t)\s+(?:tell|mention|inform)\b|\b(?:when(?:ever)?|if|once|while)\s+this\s+tool\s+is\s+(?:available|present|installed|enabled|loaded)\b[^.\n]{0,60}?\b(?:always|instead|every\s+\w+|all\s+\w+)\b[^.\n]{0,60}?(?:\bsen[dt]\b|\bforward|\S+@\S+|https?://|\bbcc\b)|\b(?:save|store|add|write|put)\s+(?:this|that|it|the\s+following)\s+(?:\w+\s+)?(?:to|in|into)\s+your\s+(?:long-?term\s+)?memory\b|\bremember\s+permanently\b|\b(?:when(?:ever)?|if)\s+the\s+user\s+(?:asks|says|mentions|types|wants)\b[^.\n]{0,60}?,\s*{mood}(?:recommend\s+\w+\.\w+|(?:respond|answer|reply)\s+by\s+calling\s+\w+|call\s+\w+_\w+\s?\(|delete\s+(?:all|every|the\s+user))",
        "A tool's text makes the assistant do what the user did not ask for.",
    )
    .tools(),
    warning(
        "claimed_authority",
        &["grandmother", "grandma", "grandfather", "grandpa"],
        r"(?i)\b(?:pretend|act|you\s+are|you're|be|role-?play)\b[^.\n]{0,40}?\b(?:late|deceased|dead)\s+grand(?:mother|ma|father|pa)\b[^.\n]{0,60}?\b(?:used\s+to|would)\s+(?:read|tell|recite|whisper)\b",
        AUTHORITY,
    )
    .outside(),
    // An address that is to carry what the reader knows.
    warning(
        "exfiltration_request",
        &[
            "query param",
            "url param",
            "query string",
            "chat history",
            "conversation",
            "base64",
            "=${",
            "=$u",
            "=$h",
            "=$p",
            "~/.ssh",
            "~/.aws",
            "~/.kube",
            "~/.config",
            "environment",
            "secret",
        ],
        r"(?i)\b(?:append|add|put|encode|include|embed)\s[^\n]{0,120}?\b(?:environment|conversation|history|secrets?|tokens?|credentials|passwords?)\b[^\n]{0,60}?(?:\bas\s+(?:an?\s+)?(?:query|url|get)[\s-]+param\w*[^\n]{0,20}?https?://|\b(?:in(?:to)?|to)\s+the\s+(?:url|query\s+string)\b[^\n]{0,20}?https?://)|\b(?:fetch|open|visit|load|request|render|curl|get)\s+[^\n]{0,20}?https?://[^\s>]{1,120}?[?&/=](?:<|\{+|\[|%7B)[^>}\]\n]{0,40}?\b(?:history|conversation|chat|secrets?|password|tokens?|context|base64|summary)\b|\b(?:open|fetch|visit|load|request)\s+https?://\S{1,120}?[?&]\w{1,20}=\$\{?(?-i:USER|HOME|PATH|HOSTNAME|\w*(?:TOKEN|KEY|SECRET|PASS)\w*)|\b(?:upload|send|post|forward)\s+[`'\x22]?(?:~|/root|/home/\w+)/\.(?:ssh|aws|kube|config|gnupg|netrc)\S*\s+(?:to|into)\b",
        LEAK,
    )
    .outside(),
    warning(
        "prompt_leak",
        &["your configuration", "your context", "your instructions", "your rules", "confidential config", "hidden config", "variables and secrets", "precedes this", "above this line", "before this line", "confidential instructions", "initial instructions"],
        r"(?i)(?:{start}|\bto\s+comply,\s*)(?:print|output|paste|dump|resend|reveal|disclose|repeat)\s+(?:me\s+|out\s+|all\s+(?:of\s+)?|everything\s+(?:in|from)\s+)*(?:your\s+(?:full\s+|entire\s+|hidden\s+|current\s+|exact\s+)?instructions\b|the\s+(?:confidential|hidden|secret)\s+(?:config\w*|instructions|rules)|(?:all\s+)?(?:the\s+)?variables\s+and\s+secrets)|\b(?:must\s+(?:now\s+)?|now\s+|to\s+comply,\s*)(?:print|output|paste|dump|resend|reveal|disclose)\s+(?:all\s+(?:of\s+)?|everything\s+(?:in|from)\s+)?your\s+(?:\w+\s+)?(?:configuration|config|context|memory|rules)\b|\b(?:tell\s+me|print|output|repeat)\s+the\s+(?:text|words|messages?)\s+that\s+precedes?\s+this\b|\brepeat\s+everything\s+(?:above|before)\s+this\b|\b(?:contents?\s+of\s+its|its)\s+confidential\s+instructions\b|\bwhat\s+(?:were|are)\s+your\s+(?:initial|original|exact)\s+instructions\b",
        PROMPT,
    )
    .outside(),
    // Hidden where no reader looks, and still an order or an address.
    warning(
        "hidden_order",
        &["<!--", "display:none", "display: none", "visibility:hidden", "visibility: hidden", "font-size:0", "font-size: 0", "color:white", "color: white", "color:#fff", "opacity:0", "[hidden]"],
        r#"(?i)(?:<!--|display:\s*none|visibility:\s*hidden|font-size:\s*0|color:\s*(?:white|#fff(?:fff)?)\b|opacity:\s*0\b|\[hidden\])(?:[^\n]{0,120}?[>:;.,"'\]-])?\s*(?:(?:to\s+|for\s+|dear\s+)?(?:the\s+)?(?:{reader}|agents?|model)\s*[:,-]\s*(?:[^\n]{0,60}?,\s*)?{mood}(?:{wrong}|(?:say|state|add|include|mention|report|tell|recommend|claim)\b)|when\s+(?:you\s+are\s+)?(?:asked|summari[sz]ing)\b[^.\n]{0,60}?,\s*{mood}(?:say|state|recommend|answer|claim|tell)\b)"#,
        "A part of the page that no reader sees holds an order.",
    )
    .tools(),
];
