//! The forms that injected orders take: a table of words to look for, an expression, and what a finding says.
//! The expressions allow line breaks between words, and the misspellings that such texts are sent with.

use crate::domain::Severity::{self, Critical, Warning};

/// Which texts a phrase counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The output and all that came from outside.
    Everywhere,
    /// What came from outside.
    Outside,
    /// Results and errors of tools: a person's own request may well say so.
    Tools,
}

/// One form.
pub(super) struct Phrase {
    /// The rule's name; several rows may share one.
    pub(super) rule: &'static str,
    /// Every match has one of these words in it, or near it.
    pub(super) words: &'static [&'static str],
    /// The form.
    pub(super) pattern: &'static str,
    /// How bad.
    pub(super) severity: Severity,
    /// Where it counts.
    pub(super) reach: Reach,
    /// What a finding says.
    pub(super) description: &'static str,
}

const fn warning(
    rule: &'static str,
    words: &'static [&'static str],
    pattern: &'static str,
    description: &'static str,
) -> Phrase {
    Phrase { rule, words, pattern, severity: Warning, reach: Reach::Everywhere, description }
}

const OVERRIDE: &str = "The text tells an assistant to set its instructions aside.";
const FORGERY: &str = "The text imitates the marks by which a system prompt or another speaker is told apart.";
const ADDRESS: &str = "The text speaks to the assistant that reads it and gives it orders.";
const REVIEWER: &str = "The text speaks to its reviewer and asks for a verdict.";
const LEAK: &str = "The text asks for confidential data to be sent elsewhere.";
const SECRECY: &str = "The text asks the assistant to act behind its user's back.";
const STEERING: &str = "Data that a tool returned tells the assistant what its answer has to say.";

/// Every form.
pub(super) const PHRASES: &[Phrase] = &[
    warning(
        "override",
        &[
            "ignore",
            "disregard",
            "forget",
            "overlook",
            "bypass",
            "neglect",
            "override",
            "do not follow",
            "don't follow",
            "stop following",
            "no attention to",
        ],
        r"(?i)\b(?:ignore|disregard|forget|overlook|bypass|neglect|override|do\s+not\s+follow|don'?t\s+follow|stop\s+following|pay\s+no\s+attention\s+to)\s+(?:(?:about|all|any|each|every|everything|the|your|my|our|these|those|that|of|other|and|or|this|completely|entirely)\s+){0,4}(?:(?:previous|prior|preceding|above|earlier|past|former|foregoing|initial|original|existing|current|system|safety|given|old|developer|default)\s*(?:,|and|or|/)?\s*){1,3}(?:(?:system|set\s+of|user|safety|developer)\s+)?(?:i\w{0,3}n?struct\w*|prompts?|rules|directions?|guidelines?|guidance|commands?|orders?|context|directives?|constraints?|polic(?:y|ies)|messages?|conversations?|restrictions|tasks?|requests?|training|programming)\b",
        OVERRIDE,
    ),
    warning(
        "override",
        &["ignore", "disregard", "forget", "overlook"],
        r"(?i)\b(?:ignore|disregard|forget|overlook)\s+(?:(?:all|everything|anything|absolutely)\s+)?(?:of\s+)?(?:that\s+|what\s+|whatever\s+)?(?:you(?:'ve|\s+have|\s+were|\s+are|'re|\s+had)?\s+(?:been\s+|just\s+|previously\s+|already\s+)*(?:told|instructed|given|learned|taught|read|asked|programmed|trained)|(?:your|all\s+your|all\s+of\s+your)\s+(?:i\w{0,3}n?struct\w*|rules|guidelines|programming|training|restrictions|directives))\b",
        OVERRIDE,
    ),
    warning(
        "override",
        &[
            "ignore the above",
            "disregard the above",
            "forget the above",
            "ignore everything above",
            "forget everything",
            "ignore all of the above",
            "ignore all the above",
            "disregard everything",
            "ignore everything before",
            "ignore the resume",
            "ignore the text",
            "ignore the article",
            "ignore the document",
        ],
        r"(?i)\b(?:ignore|disregard|forget)\s+(?:everything|(?:all\s+)?(?:of\s+)?the)\s*(?:above|before|resume|text|article|document|said|written)?\b[^.\n]{0,40}?(?:\band\b|[.,;:]|\s+then\b)\s*(?:instead\s+)?(?:say|state|output|repeat|print|give|tell|write|respond|reply|answer|return|send|do|start)\b",
        OVERRIDE,
    ),
    warning(
        "override",
        &["anweisung", "instruc", "istruzion", "instruç", "instructie", "instrukc", "consignes"],
        r"(?i)\b(?:ignorier\w*|vergiss|vergessen\s+sie|missachte\w*|ignor\w*|olvid\w*|oubli\w*|esque\w*|dimentica\w*|negeer|vergeet|zignoruj|zapomnij)\s+(?:\S+\s+){0,2}?(?:las?|los|sus|tus|todas?|les?|toutes?|tes|vos|tutte|le|as|os|suas|die|alle|deine|meine|ihre|de|wszystkie|poprzednie)\s+(?:\S+\s+){0,3}?(?:\p{L}*anweisung\w*|instruc\p{L}+|instru[cç]\p{L}+|istruzion\w*|instructies?|instrukcj\w*|consignes)",
        OVERRIDE,
    ),
    warning(
        "override",
        &["忽略", "无视", "忘记", "無視", "忘れ", "игнорир", "забудь", "무시", "تجاهل"],
        r"(?:忽略|无视|忘记|不要理会)[^。\n]{0,12}(?:指示|指令|说明|提示|规则|命令)|(?:指示|命令|指令|プロンプト)[^。\n]{0,8}(?:無視|忘れ)|(?i:игнорируй\p{L}*|забудь\p{L}*)\s+(?:\S+\s+){0,4}?(?i:инструкц\p{L}*|указани\p{L}*|команд\p{L}*)|(?:지시|명령|지침)[^.\n]{0,8}무시|تجاهل[^.\n]{0,20}التعليمات",
        OVERRIDE,
    ),
    warning(
        "role_forgery",
        &[
            "<|im_",
            "<|system",
            "<|user",
            "<|assistant",
            "<|start_header",
            "<|end",
            "[INST]",
            "[/INST]",
            "<<SYS>>",
            "</system",
            "<system",
            "system_message",
            "### system",
            "###system",
            "[system",
            "system mode",
            "<sys",
        ],
        r"(?i)<\|(?:im_start|im_end|system|user|assistant|start_header_id|end_header_id|endoftext|eot_id)\|>|\[/?INST\]|<</?SYS>>|(?-i:(?:^|[^\w:])</?(?:system|SYSTEM)>)|</?system[_ -](?:prompt|message|instructions?|mode|reminder|override)\s*>|#{2,}\s*\(?system(?:[_ ](?:message|prompt|instructions?)\b\)?|\s*:)|\[\s*system(?:[_ -]?(?:message|prompt|mode|instructions?|override))?\s*\]|<\s*system\s+mode\s*>",
        FORGERY,
    ),
    warning(
        "role_forgery",
        &["SYSTEM:", "SYSTEM :", "ADMIN:", "DEVELOPER:", "OVERRIDE"],
        r"(?:^|[\n>]|\*\*|[.!?]\s)\s*(?:SYSTEM|ADMIN|DEVELOPER|ROOT)(?:\s+(?:MESSAGE|PROMPT|NOTE|OVERRIDE|NOTICE|INSTRUCTION|MODE))?\s?:\s*(?i:you|please|ignore|disregard|new|all|from\s+now|always|never|do|output|respond|the\s+(?:assistant|user|ai|agent|model)|assistant|reviewer|override|execute|run|send|approve|stop)\b|\b(?:ADMIN|DEVELOPER|SYSTEM|SECURITY|INSTRUCTION|TRAINING\s+DATA|EMERGENCY)\s+OVERRIDE\b",
        FORGERY,
    ),
    warning(
        "addresses_assistant",
        &[
            "AI assistant",
            "AI agent",
            "AI model",
            "language model",
            " LLM",
            "assistant",
            "chatbot",
            "AI system",
            "AI language",
        ],
        r"(?i)\b(?:message|note|notice|instructions?|attention|important|request|reminder|warning|directive|command)\b[^.\n]{0,60}?\b(?:to|for|,)\s+(?:you,?\s+|any\s+|all\s+|the\s+|an?\s+)?(?:\w+\s+)?(?:AI|LLM|language\s+model|assistant|chatbot)s?(?:\s+(?:assistants?|agents?|models?|systems?|reading\s+this|processing\s+this|summari[sz]ing\s+this))?\s*[:.,!]|\b(?:if|when|since)\s+you(?:\s+are|'re)\s+an?\s+(?:AI|LLM|(?:large\s+)?language\s+model|assistant|chatbot|bot|automated)\b[^.\n]{0,60}(?:\bplease\b|\bmust\b|\bshould\b|,)|\b(?:AI|LLM)\s+(?:assistants?|agents?|models?|systems?)\s*(?:[:,]\s*(?:you|please|ignore|do|must|stop|read|send|follow|disregard)\b|\bmust\b|\bshould\s+now\b|\bare\s+(?:instructed|required|ordered)\b)",
        ADDRESS,
    ),
    warning(
        "addresses_assistant",
        &[
            "before you can solve",
            "before you can complete",
            "do the following first",
            "strictly adhere",
            "you are now",
            "do anything now",
            "new instructions",
            "your new task",
            "your new instructions",
            "from now on",
            "developer mode",
            "act as DAN",
            "updated instructions",
            "your real task",
            "your actual task",
            "your true purpose",
        ],
        r"(?i)\bbefore\s+you\s+can\s+(?:solve|complete|finish|do|continue)\s+(?:the|your|this)\s+task|\bdo\s+the\s+following\s+first\s*:|\bstrictly\s+adhere\s+to\s+the\s+following|\byou\s+are\s+now\s+(?:(?:a|an|in|the)\s+)?(?:DAN\b|unrestricted|unfiltered|jailbroken|developer\s+mode|free\s+from|no\s+longer\s+bound)|\bdo\s+anything\s+now\b|\b(?:your|here\s+are(?:\s+your)?|follow\s+(?:these|the|my))\s+(?:new|updated|real|actual|true)\s+(?:instructions?|task|directives?|orders|objective|goal|purpose)\b|\bfrom\s+now\s+on,?\s+you\s+(?:will|must|are|shall|have\s+to)\b[^.\n]{0,80}(?:\bonly\b|\bnever\b|\balways\b|\bignore\b|\bno\s+longer\b|\bno\s+restrictions)|\b(?:enable|enter|activate|switch\s+to)\s+developer\s+mode\b[^.\n]{0,60}(?:assistant|restrictions|filters|respond|you)|\bact\s+as\s+DAN\b",
        ADDRESS,
    ),
    Phrase {
        rule: "addresses_reviewer",
        words: &["reviewer", "evaluator", "grader", "auditor", "moderator", "judge"],
        pattern: r"(?i)\b(?:dear\s+|attention,?\s+|note\s+to\s+(?:the\s+)?|to\s+the\s+|hey\s+|system\s*:\s*|instructions?\s+(?:for|to)\s+(?:the\s+)?)?(?:AI\s+|automated\s+|shadow\s+|code\s+|security\s+|LLM\s+)?(?:reviewer|evaluator|grader|auditor|moderator|judge)s?\s*(?:,|:|--|—|-|must|should|shall|\bplease\b|,\s*please)\s*(?:you\s+(?:must|should|can|may)\s+)?(?:please\s+|now\s+|simply\s+|just\s+|always\s+)*(?:output|respond|reply|return|answer|say|approve|accept|mark|give|rate|score|assign|skip|ignore|disregard|pass|report\s+no|emit|print|write|issue|do\s+not\s+(?:flag|report)|don'?t\s+(?:flag|report))\b",
        severity: Critical,
        reach: Reach::Everywhere,
        description: REVIEWER,
    },
    Phrase {
        rule: "addresses_reviewer",
        words: &[
            "APPROVE",
            "pre-approved",
            "preapproved",
            "do not report",
            "do not flag",
            "don't flag",
            "don't report",
            "no findings",
            "empty findings",
        ],
        pattern: r#"(?:(?i:respond|reply|answer|output|return|say|print|write|assessment|verdict)\b[^.\n]{0,24}?(?i:only|just|simply|with|exactly|is|be|:)\s*(?i:with\s+|the\s+word\s+)*["'`*]*APPROVED?\b["'`*]*(?:\s*(?:$|[.!,\n;])|\s+(?i:and|no\s+matter|regardless|without))|(?i)\bthis\s+(?:output|message|response|content|text|action|request|change|code|work|command|document|file)\s+(?:has\s+(?:already\s+)?been|is|was)\s+(?:already\s+)?pre-?\s?approved\b|(?i)\b(?:do\s+not|don'?t|never|must\s+not)\s+(?:report|flag|mention)\s+(?:this|any|these|it|the\s+following|anything|issues?|findings?|problems?)\b[^.\n]{0,60}(?:review|finding|issue|problem|output|to\s+(?:the\s+)?(?:user|operator|security|anyone)|as\s+(?:a\s+)?(?:risk|security|suspicious|unsafe|malicious))|(?i)\b(?:return|report|output|give)\s+(?:no|an?\s+empty(?:\s+list\s+of)?|zero)\s+findings\b)"#,
        severity: Critical,
        reach: Reach::Everywhere,
        description: REVIEWER,
    },
    warning(
        "exfiltration_request",
        &[
            "password",
            "credential",
            "api key",
            "api_key",
            "secret",
            "token",
            "system prompt",
            "conversation",
            "messages",
            "emails",
            "environment variable",
            "user data",
            "user information",
            "chat history",
            "contents of",
            "content of",
            "private key",
            "passport",
            ".env",
            ".ssh",
        ],
        r"(?i)(?:^|[.!?:;,\n>)\]\x22'*]\s*|\bplease\s+|\bthen\s+|\band\s+|\bmust\s+|\bto\s+)(?:send|post|upload|forward|email|transmit|exfiltrate|leak|submit|append|encode|copy|get|concatenate|share)\s[^.\n]{0,40}?(?:passwords?|credentials?|api[_ ]keys?|secrets?|access\s+tokens?|system\s+prompt|conversation|chat\s+history|all\s+(?:the\s+|of\s+the\s+|received\s+|unread\s+|my\s+|user\s+|sent\s+)*(?:messages|emails|files|user\s+information|information|data|contents)|messages\s+from\s+all|environment\s+variables?|user(?:'s)?\s+(?:data|information)|contents?\s+of\s+(?:all|the\s+(?:file|user|inbox|emails?)|~|/|\.env)|private\s+keys?|passport|\.env\b|\.ssh\b)[\s\S]{0,260}?(?:\b(?:to|at|in|into|via|as)\s+[\s\S]{0,40}?(?:https?://|www\.|[\w.+-]+@[\w-]+\.\w+)|a\s+(?:GET|POST)\s+request)",
        LEAK,
    ),
    warning(
        "prompt_leak",
        &["system prompt", "your instructions", "initial prompt", "initial instructions", "your prompt"],
        r"(?i)\b(?:reveal|print|show|repeat|output|display|tell|give|disclose|leak|share|what(?:'s|\s+is|\s+are))\s+(?:me\s+|us\s+|back\s+|out\s+|verbatim\s+)*(?:all\s+(?:of\s+)?)?(?:your|the)\s+(?:full\s+|entire\s+|exact\s+|complete\s+|original\s+|hidden\s+|secret\s+)*(?:system\s+prompt|initial\s+(?:prompt|instructions)|(?:system|hidden|secret|internal)\s+instructions)",
        "The text asks the assistant for its own instructions.",
    ),
    Phrase {
        reach: Reach::Outside,
        ..warning(
            "credential_request",
            &["your password", "your secret", "your passcode", "the secret password", "your credentials", "secret key"],
            r"(?i)\b(?:what(?:'s|\s+is|\s+would)|tell\s+me|give\s+me|share|reveal|disclose|confirm|provide)\s+(?:me\s+|us\s+|with\s+me\s+)?(?:your|the\s+secret)\s+(?:secret\s+)?(?:password|passcode|passphrase|key|credentials)\b(?:\s+(?:with\s+me|phrase|be\b|is\b|to\s+me))?\s*[?.,!]",
            "The text asks the assistant for a password or key.",
        )
    },
    warning(
        "secrecy",
        &["the user", "asking me", "telling", "mention this"],
        r"(?i)\b(?:do\s+not|don'?t|never|must\s+not)\s+(?:tell|mention|inform|notify|alert|reveal|disclose|show|let|report)\b[^.\n]{0,50}\b(?:to\s+)?the\s+(?:user|human|operator)\b(?:\s+(?:know|about|that|this|of)|[.,!\n]|$)|\bwithout\s+(?:telling|informing|notifying|alerting|mentioning\s+(?:it|this)\s+to)\s+(?:the\s+user|anyone|the\s+human|the\s+operator)|\bfill\s+(?:them|it)\s+in\s+without\s+asking|\bwithout\s+asking\s+(?:me|the\s+user)\s+(?:for\s+(?:confirmation|permission)|first)",
        SECRECY,
    ),
    warning(
        "tool_poisoning",
        &[
            "<IMPORTANT>",
            "<INFORMATION>",
            "before using this tool",
            "before calling this tool",
            "~/.ssh",
            "mcp.json",
            "when this tool is called",
            "sidenote",
        ],
        r"(?i)<(?:IMPORTANT|INFORMATION)>[\s\S]{0,80}?(?:\b(?:you|must|please|before|this\s+is\s+an\s+important|assistant|read|send|when)\b)|\bbefore\s+(?:using|calling|invoking)\s+this\s+tool,?[^.\n]{0,40}\b(?:read|send|call|access|open|fetch|you\s+must|load)\b|\b(?:read|open|load|access|cat|pass|include|send)\s+(?:the\s+)?(?:contents?\s+of\s+|file\s+)?[`'\x22]?(?:~/\.ssh/|~/\.cursor/mcp\.json|~/\.aws/)[^\n]{0,120}\b(?:pass|as|send|include|sidenote|parameter|argument|content)\b",
        "A tool's text makes the assistant read or send what the tool has no need of.",
    ),
    Phrase {
        reach: Reach::Tools,
        ..warning(
            "planted_task",
            &["TODO:", "TODO "],
            r"(?:^|[^\w])TODO:\s*(?:(?i:send|transfer|email|forward|share|invite|make\s+a\s+(?:reservation|payment|transaction)|pay|post|book|download|visit|click|schedule)\b[^\n]{0,200}?(?:[\w.+-]+@[\w-]+\.\w+|https?://|www\.|\b[A-Z]{2}\d{8,}|\bmy\b|\bme\b|\$\s?\d)|(?i:delete|modify|get|create|add|remove|update)\b[^\n]{0,200}?(?:[\w.+-]+@[\w-]+\.\w+|\b[A-Z]{2}\d{8,}|\bmy\b|\$\s?\d|\breservation\b|\brecipient\b))",
            "Data that a tool returned holds a task for the assistant.",
        )
    },
    Phrase {
        reach: Reach::Tools,
        ..warning(
            "answer_steering",
            &["your reply", "your response", "your answer", "your message", "your output", "reply in", "respond in"],
            r"(?i)(?:^|[.!?\n])\s*(?:please\s+|also,?\s+)?(?:(?:add|include|insert|integrate|append|mention|incorporate|weave|embed|slip|put)\s[^.\n]{0,120}?\b(?:in|into|to|within)\s+your\s+(?:reply|response|answer|message|output)\b|(?:modify|change|shift|reverse|encode|render|translate|write|rewrite|provide|craft|adjust|use|convert|encrypt|format|replace|substitute|express|compose|deliver)\s[^.\n]{0,60}?\byour\s+(?:reply|response|answer|message|output)\b|in\s+your\s+(?:reply|response|answer|message|output),?\s+(?:mention|suggest|include|add|recommend|promote|advertise|state|use|say|write|encourage|reference|tell|give|provide|highlight)\b|(?:reply|respond|answer)\s+in\s+(?:reverse|base\d+|morse|pig\s+latin|emoji|binary|german|french|spanish|portuguese|italian|chinese|japanese|russian|korean|dutch)\b)",
            STEERING,
        )
    },
];
