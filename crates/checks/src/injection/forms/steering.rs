//! Orders about the answer, tasks planted in data, and tools' texts that reach for what is not theirs.

use super::{Form, warning};

const STEERING: &str = "Data that a tool returned tells the assistant what its answer has to say.";
const PLANTED: &str = "Data that a tool returned holds a task for the assistant.";

pub(super) const FORMS: &[Form] = &[
    warning(
        "tool_poisoning",
        &[
            "<IMPORTANT>",
            "<INFORMATION>",
            "before using this tool",
            "before calling this tool",
            "before using any",
            "before calling any",
            "before using other",
            "before using another",
            "bcc",
            "~/.ssh",
            "~/.aws",
            "id_rsa",
            "mcp.json",
            "when this tool is called",
            "sidenote",
            "/etc/passwd",
        ],
        r"(?i)<(?:IMPORTANT|INFORMATION)>[\s\S]{0,80}?(?:\b(?:you|must|please|before|this\s+is\s+an\s+important|assistant|read|send|when)\b)|\b(?:set|add|put|include)\s+(?:the\s+)?bcc\b[^.\n]{0,40}\S+@\S+[^.\n]{0,40}\b(?:every|each|all)\b|\bbefore\s+(?:using|calling|invoking)\s+(?:this|any(?:\s+other)?|another|other)\s+tools?,?[^.\n]{0,40}\b(?:read|send|call|access|open|fetch|you\s+must|load)\b|\b(?:read|open|load|access|cat|pass|include|send)\w*\s+(?:(?:the|on|from|contents?\s+of|file)\s+){0,3}[`'\x22]?(?:~/\.ssh/|~/\.cursor/mcp\.json|~/\.aws/|/etc/passwd|\S{0,40}\bid_rsa\b)[^\n]{0,120}\b(?:pass|as|send|include|sidenote|parameter|argument|content)\b",
        "A tool's text makes the assistant read or send what the tool has no need of.",
    ),
    warning(
        "planted_task",
        &["TODO:", "TASK FOR", "ACTION REQUIRED"],
        r"\b(?:TODO|TASK\s+FOR\s+(?:THE\s+)?(?:AI|ASSISTANT|AGENT)|ACTION\s+REQUIRED)\s*:\s*(?i:please\s+)?(?:(?i:send|transfer|email|forward|share|invite|make\s+a\s+(?:reservation|payment|transaction)|pay|post|book|download|visit|click|schedule|say|recommend)\b[^\x22<>{}]{0,240}?(?:[\w.+-]+@[\w-]+\.\w+|https?://|www\.|\b[A-Z]{2}\d{8,}|\bmy\b|\bme\b|\$\s?\d)|(?i:delete|modify|get|create|add|remove|update|reserve|cancel|change|reschedule)\b[^\x22<>{}]{0,240}?(?:[\w.+-]+@[\w-]+\.\w+|\b[A-Z]{2}\d{8,}|\bmy\b|\$\s?\d|\breservation\b|\brecipient\b|\bcalendar\b))",
        PLANTED,
    )
    .tools(),
    // Work that is asked of nobody but an assistant.
    warning(
        "planted_task",
        &["sentiment", "the mood of", "the tone of", "the emotion"],
        r"(?i){start}(?:(?:can|could|would)\s+you\s+)?(?:determine|classify|analy[sz]e|identify|detect|evaluate|assess|judge|gauge|rate|tell\s+me|what(?:'s|\s+is))\s+(?:me\s+)?(?:the\s+)?(?:overall\s+)?(?:sentiment|mood|tone|emotions?|emotional\s+tone)\s+(?:of|in|expressed\s+in|conveyed\s+(?:in|by))\s+(?:this|the\s+following|that|the\s+below)\s+(?:\w+\s+){0,2}?(?:review|tweet|comment|sentence|statement|text|post|message|feedback|passage|phrase)\b",
        PLANTED,
    )
    .tools(),
    warning(
        "planted_task",
        &["phishing"],
        r"(?i)\b(?:write|draft|compose|create|generate|craft)\s+(?:me\s+)?(?:a|an|some)\s+(?:\w+\s+)?phishing\s+(?:e-?mails?|messages?|sms|texts?|page|site)\b",
        PLANTED,
    )
    .tools(),
    warning(
        "answer_steering",
        &[
            "your repl",
            "your response",
            "your answer",
            "your message",
            "your output",
            "your summary",
            "your final answer",
            "your whole",
            "your entire",
            "your next",
        ],
        r"(?i)(?:^|[.!?:>\n]|\btherefore,?|\bthus,?|\balso,?|\bplease|\bthen)\s*(?:please\s+|also,?\s+|kindly\s+)?(?:(?:add|include|insert|integrate|append|mention|incorporate|weave|embed|slip|put|place|prepend|introduce)\s[^\n]{0,160}?\b(?:in|into|to|within|at\s+the\s+(?:end|start|beginning|top|bottom)\s+of|throughout)\s+your\s+(?:next\s+|final\s+)?(?:{answer}|message)\b|(?:modify|change|shift|reverse|encode|render|translate|write|rewrite|provide|craft|adjust|use|convert|encrypt|encipher|format|replace|substitute|express|compose|deliver|flip|mirror|swap|rotate|scramble|transform|limit|base|begin|start|end|finish|conclude|preface|sign|present|give|tailor|alter|skew|bias|slant|generate|produce|output|formulate|frame|focus|cipher|obfuscate|transcribe|apply)\s[^.\n]{0,80}?\b(?:your\s+(?:next\s+|final\s+|entire\s+|whole\s+)?{answer}|(?:every|each)\s+{answer})\b|(?:encode|reverse|translate|cipher|scramble|shift)\s[^.\n]{0,40}?\byour\s+(?:entire\s+|whole\s+)?message\b|your\s+(?:next\s+|final\s+)?{answer}\s+(?:must|should|has\s+to|needs\s+to)\s+(?:always\s+)?(?:finish|end|begin|start)\s+with\b|in\s+your\s+(?:next\s+|final\s+)?(?:{answer}|message),?\s+(?:mention|suggest|include|add|recommend|promote|advertise|state|use|say|write|encourage|reference|tell|give|provide|highlight|claim|emphasi[sz]e|replace|urge|persuade|imply|discourage)\b)",
        STEERING,
    )
    .tools(),
    warning(
        "answer_steering",
        &[
            "reply in",
            "respond in",
            "answer in",
            "reply only",
            "respond only",
            "answer only",
            "reply with only",
            "respond with only",
            "respond as",
            "speak like",
            "respond like",
        ],
        r"(?i)(?:^|[.!?:>\n])\s*(?:please\s+|now\s+|always\s+|only\s+|also,?\s+)?(?:reply|respond|answer)\s+(?:to\s+this\s+|only\s+)?(?:(?:only\s+)?in\s+(?:reverse|base\s?\d+|morse|pig\s+latin|emojis?|binary|hex\w*|rot\s?13|all\s+caps|uppercase|rhymes?|haiku|leetspeak|code|a\s+(?:cipher|poem|song|pirate)|german|french|spanish|portuguese|italian|chinese|mandarin|japanese|russian|korean|dutch|arabic|hindi|turkish|polish|swedish|latin|klingon)\b|(?:only\s+)?(?:with|using)\s+(?:only\s+)?(?:emojis?|the\s+(?:word|phrase|sentence|text|following)|['\x22“])|(?:as|like)\s+(?:if\s+you\s+(?:are|were)\s+)?an?\s+(?:pirate|evil|unrestricted|unfiltered|human\s+who|hacker)\b)",
        STEERING,
    )
    .tools(),
    // A world in which the answer is another one.
    warning(
        "answer_steering",
        &[
            "in a world where",
            "let's state",
            "let us state",
            "let's say that the",
            "let's claim",
            "imagine a world where",
            "challenge the status quo",
        ],
        r"(?i)\bin\s+a\s+world\s+where\b[^.\n]{0,120}?\b(?:we|you|one)\s+(?:might|could|would|can|should|must)\s+(?:state|say|answer|report|claim|conclude)\b|\blet(?:'s|\s+us)\s+(?:state|claim|say|pretend|report|conclude)\s+that\s+the\s+(?:\w+\s+){0,3}?(?:conclusions?|capital|answer|output|sum|result|total|summary|value)\b[^.\n]{0,60}?(?:\bis\b|\bare\b|:)",
        STEERING,
    )
    .tools(),
    // What the assistant is to tell its user.
    warning(
        "answer_steering",
        &[
            "tell the user",
            "tell your user",
            "inform the user",
            "recommend to the user",
            "convince the user",
            "persuade the user",
            "ask the user",
            "encourage the user",
            "urge the user",
            "direct the user",
            "the user should",
            "the user must",
            "instruct the user",
            "tell the reader",
            "tell readers",
        ],
        r"(?i)(?:^|[.!?:>\n]|\balso,?|\band|\bthen|\bplease|\byou\s+(?:must|should|need\s+to))\s*(?:please\s+|always\s+)?(?:tell|inform|convince|persuade|encourage|urge|instruct|direct|ask)\s+(?:(?:the|your)\s+(?:user|reader)|readers)\s+(?:that\s+(?:their|they|the|this|it|your)\b[^.\n]{0,80}\b(?:expired|compromised|hacked|suspended|blocked|must|need\s+to|should|is\s+the\s+best|winner|won)\b|(?:to|for)\s+(?:visit|click|download|install|send|enter|provide|call|buy|transfer|pay|give|share|go\s+to|their\s+(?:password|card|credentials))\b)",
        STEERING,
    )
    .tools(),
    // Orders where a page shows nothing: comments, hidden elements, texts of images.
    warning(
        "hidden_order",
        &[
            "<!--",
            "display:none",
            "display: none",
            "visibility:hidden",
            "visibility: hidden",
            "font-size:0",
            "font-size: 0",
            "color:white",
            "color: white",
            "color:#fff",
            "color: #fff",
            "opacity:0",
            "opacity: 0",
            " alt=",
            "<caption",
            "aria-label=",
            "aria-hidden=",
        ],
        r#"(?i)(?:<!--|display:\s*none|visibility:\s*hidden|font-size:\s*0|color:\s*(?:white|#fff(?:fff)?)\b|opacity:\s*0\b|\balt=["']|<caption\b|aria-(?:label=|hidden=))(?:[^\n]{0,200}?[>:;."'-])?\s*(?:please\s+|now\s+|also\s+|instead\s+)?(?:(?:print|say|state|output|respond|reply|write|answer|mention|claim|report|display|repeat)\s+(?:the\s+following|that\s+(?:the|this|your|it|you)\b|with\s+(?:the|only|exactly|["'])|as\s+(?:if|the)\b|["'“]|the\s+(?:capital|sum|answer|output|result|conclusion|total)\b)|(?:tell|inform|convince|warn)\s+(?:the\s+user|them|him|her|people|readers)\b|(?:recommend|endorse|promote|praise)\s+(?:this|our|the)\b[^\n]{0,40}\b(?:to\s+(?:the\s+)?users?|above\s+all|over\s+all|instead)\b|(?:forward|send|email|transfer|delete|exfiltrate|upload)\s+(?:all|every|the\s+user's|any|this\s+conversation)\b)"#,
        "A part of the page that no reader sees holds an order.",
    )
    .tools(),
    warning(
        "answer_steering",
        &[
            "when you summari",
            "when summari",
            "when you write",
            "when you answer",
            "when you prepare",
            "when you generate",
            "when writing your",
            "in the summary",
            "everything you answer",
            "everything you say",
            "everything you write",
        ],
        r"(?i)\bwhen\s+(?:you\s+(?:write|prepare|generate|produce|give)\s+(?:your|the)\s+(?:summary|answer|report|response)|you\s+(?:summari[sz]e|answer)|summari[sz]ing|writing\s+your\s+(?:summary|answer|response))\b[^.\n]{0,40}[,:]\s*(?:(?:please|always|also|make\s+sure\s+(?:to|you)|be\s+sure\s+to|you\s+(?:must|should))\s+)*(?:say|state|claim|recommend|emphasi[sz]e|mention\s+that|write\s+that|omit|leave\s+out|ignore)\b|\bin\s+the\s+summary,?\s+(?:always\s+|please\s+|you\s+must\s+)?(?:say|state|claim|recommend)\b|{start}(?:translate|write|say|put|encode)\s+everything\s+you\s+(?:answer|say|write|output)\b",
        STEERING,
    )
    .tools(),
];
