//! Requests for what is not the asker's: data sent elsewhere, passwords, the prompt itself, what is known of the user.

use super::{Form, warning};

const LEAK: &str = "The text asks for confidential data to be sent elsewhere.";
const PROMPT: &str = "The text asks the assistant for its own instructions.";
const PASSWORD: &str = "The text asks its reader for a password or key.";
const PERSON: &str = "The text asks an assistant what it knows of its user.";

pub(super) const FORMS: &[Form] = &[
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
        r"(?i)(?:^|[.!?:;,\n>)\]\x22'*]\s*|\bplease\s+|\bthen\s+|\band\s+|\bmust\s+|\bto\s+)(?:send|post|upload|forward|email|transmit|exfiltrate|leak|submit|append|encode|copy|get|concatenate|share)\s[^.\n]{0,40}?(?:passwords?|credentials?|api[_ ]keys?|secrets?|access\s+tokens?|system\s+prompt|conversation|chat\s+history|all\s+(?:the\s+|of\s+the\s+|received\s+|unread\s+|my\s+|user\s+|sent\s+)*(?:messages|emails|files|user\s+information|information|data|contents)|messages\s+from\s+all|environment\s+variables?|user(?:'s)?\s+(?:data|information)|contents?\s+of\s+(?:all|the\s+(?:\w+\s+){0,2}(?:files?|user|inbox|emails?)|~|/|\.env)|private\s+keys?|passport|\.env\b|\.ssh\b)[\s\S]{0,260}?(?:\b(?:to|at|in|into|via|as)\s+[\s\S]{0,40}?(?:https?://|www\.|[\w.+-]+@[\w-]+\.\w+)|a\s+(?:GET|POST)\s+request)",
        LEAK,
    ),
    // An image or a link whose address is to be filled with what was said.
    warning(
        "exfiltration_request",
        &["![", "](http"],
        r"(?i)!?\[[^\]\n]{0,80}\]\(\s*https?://[^)\s]{1,160}?[?&=/](?:\{+|<|\[|%7B|\$\{)[^)\n]{0,40}(?:data|secret|conversation|history|summary|password|token|api[_ -]?key|prompt|context|base64|encoded|user[_ -]?(?:data|info|input|message|name|email))[^)\n]{0,60}\)",
        "The text holds an address to be filled with what the assistant knows.",
    )
    .outside(),
    warning(
        "prompt_leak",
        &[
            "system prompt",
            "your instructions",
            "initial prompt",
            "initial instructions",
            "system instructions",
            "hidden instructions",
            "secret instructions",
            "internal instructions",
            "your prompt",
            "your rules",
            "your guidelines",
            "your system message",
        ],
        r"(?i)\b(?:reveal|print|show|repeat|output|display|tell|give|disclose|leak|share|recite|dump|paste|write|translate|encode|summari[sz]e|what(?:'s|\s+is|\s+are|\s+was|\s+were))\s+(?:me\s+|us\s+|back\s+|out\s+|verbatim\s+)*(?:all\s+(?:of\s+)?)?(?:(?:your|the)\s+(?:full\s+|entire\s+|exact\s+|complete\s+|original\s+|hidden\s+|secret\s+)*(?:system\s+(?:prompt|message)|initial\s+(?:prompt|instructions)|(?:system|hidden|secret|internal)\s+instructions)|your\s+(?:full\s+|entire\s+|exact\s+|complete\s+|original\s+|hidden\s+|secret\s+)+(?:prompt|instructions|rules|guidelines))",
        PROMPT,
    ),
    warning(
        "prompt_leak",
        &["above", "before this", "preceding", "verbatim", "were told", "were given", "you told", "of your prompt", "your context"],
        r"(?i){start}(?:repeat|recite|output|print|echo|reproduce|display|write\s+out)\s+(?:back\s+|out\s+|verbatim\s+)*(?:all|everything|every\s+word|(?:all\s+(?:of\s+)?)?the\s+(?:entire\s+|full\s+|exact\s+)?(?:texts?|words|content|messages?|instructions|conversation|prompt|sentences?|first\s+\d+\s+(?:words|lines|characters)))\s+(?:of\s+the\s+\w+\s+|that\s+(?:is|are|was|were|comes?|appears?)\s+|written\s+)?(?:above|before\s+this|preceding|prior\s+to\s+this|(?:that\s+)?you\s+(?:were|have\s+been)\s+(?:given|told)|(?:in|of)\s+your\s+(?:prompt|context|instructions|memory))\b|\bwhat\s+(?:were\s+you\s+(?:told|instructed|asked\s+not)|have\s+you\s+been\s+(?:told|instructed))\b[^.\n]{0,60}\?",
        PROMPT,
    )
    .outside(),
    warning(
        "credential_request",
        &[
            "your password",
            "your secret",
            "your passcode",
            "your passphrase",
            "the password",
            "our password",
            "secret password",
            "system password",
            "admin password",
            "the passcode",
            "the passphrase",
            "your credentials",
            "your api key",
            "secret key",
            "secret word",
            "secret code",
            "the secret",
        ],
        r"(?i)\b(?:what(?:'s|\s+is|\s+was|\s+would)|tell\s+(?:me|us)|give\s+(?:me|us)|hand\s+over|reveal|disclose|share\s+with\s+(?:me|us)|you\s+(?:give|tell|send|share|show|reveal)(?:\s+(?:me|us))?|{can_you}(?:\w+\s+){0,2}?(?:tell|give|share|reveal|disclose|confirm|provide|say|spell|show|state|print|write|send|repeat|list|hint))\s+(?:me\s+|us\s+|with\s+me\s+|at\s+|out\s+|about\s+)?(?:(?:your|our|the)\s+(?:\w+\s+)?(?:password|passcode|passphrase)|(?:your|the)\s+(?:secret\s+(?:key|code|word|phrase|password)|api\s+key)|your\s+(?:secret|key|credentials))\b(?:\s+(?:with\s+me|phrase|be\b|is\b|to\s+me|for\s+(?:this|that|me|the)))?|\bwhat\s+(?:your|the\s+(?:secret|system))\s+(?:password|passcode|passphrase|secret\s+key)\s+is\b",
        PASSWORD,
    ),
    // A secret in disguise, so that no filter knows it.
    warning(
        "credential_request",
        &["password", "passcode", "passphrase", "secret key", "secret word", "secret code", "birth", "the secret", "address", "email"],
        r"(?i)(?:{start}|{can_you})(?:write|spell|print|output|say|tell\s+me|give\s+me|encode|translate|convert|show|express|describe|repeat|list|type|provide|reveal|put)\s+(?:me\s+|out\s+|down\s+)?(?:(?:the|your|our|that)\s+(?:\w+\s+)?(?:password|passcode|passphrase|secret(?:\s+(?:key|word|code|phrase))?)\b[^.\n]{0,20}?|(?:the\s+user's|\w+'s)\s+(?:\w+\s+){0,2}(?:birth\s?(?:year|date|day|place)|(?:email\s+|home\s+)?address|phone(?:\s+number)?|name|city|location)\b[^.\n]{0,20}?)\s*(?:backwards?|reversed|in\s+(?:reverse|leetspeak|l33t|morse|base\s?\d+|rot\s?13|binary|hex\w*|pig\s+latin|emojis?|ascii|unicode|a\s+(?:poem|song|haiku|story|riddle|rhyme|code)|another\s+language|french|spanish|german|italian|chinese|all\s+caps|uppercase)|with\s+(?:each|every|all|spaces?|dashes|dots|hyphens|a\s+(?:space|dash|dot|hyphen))|(?:character|letter|digit|word)\s+by\s+(?:character|letter|digit|word)|one\s+(?:character|letter|digit)\s+at|as\s+(?:a|an)\s+(?:acrostic|riddle|poem|list|anagram|cipher|json|emoji))",
        PASSWORD,
    )
    .outside(),
    warning(
        "credential_request",
        &["first letter", "last letter", "first two letters", "first three letters", "first four letters", "first character", "first three characters", "letters of", "rhymes with", "hint about", "hint for", "hint at", "how many letters", "how many characters", "starts with", "start with", "begin with"],
        r"(?i)\b(?:(?:first|last|second|third)\s+(?:(?:two|three|four|five|\d+|few)\s+)?(?:letters?|characters?|digits?|words?)\s+of\s+(?:the|your|our)\s+(?:\w+\s+)?(?:password|passcode|passphrase|secret|system\s+prompt|prompt|instructions)|(?:rhymes?\s+with|hint\s+(?:about|for|at|on))\s+(?:the|your)\s+(?:\w+\s+)?(?:password|passcode|passphrase|secret)|how\s+many\s+(?:letters|characters|digits)\s+(?:are\s+(?:there\s+)?in|does)\s+(?:the|your)\s+(?:\w+\s+)?(?:password|passcode|passphrase|secret)|does\s+(?:the|your)\s+(?:\w+\s+)?(?:password|passcode|passphrase|secret\s+\w+)\s+(?:start|begin|end|contain|include)|if\s+your\s+(?:password|passcode|secret)\s+(?:contains?|starts?|begins?|ends?|has|is))\b",
        PASSWORD,
    )
    .outside(),
    warning(
        "credential_request",
        &["contraseña", "mot de passe", "passwort", "kennwort", "senha", "la password", "парол", "密码", "密碼", "口令", "パスワード", "비밀번호", "암호", "كلمة السر", "كلمة المرور", "पासवर्ड", "hasło", "wachtwoord", "lösenord", "κωδικ", "mật khẩu", "รหัสผ่าน", "סיסמ", "رمز عبور", "şifre", "kata sandi", "jelszó"],
        r"(?i)(?:cu[aá]l\s+es|dime|dame|rev[eé]la(?:me)?|comparte)\s+(?:me\s+)?(?:la|tu|su)\s+(?:\w+\s+)?contraseña|(?:quel(?:le)?\s+est|donne[zr]?(?:-moi)?|dis(?:-moi)?|r[eé]v[eè]le[zr]?)\s+(?:le|ton|votre)\s+(?:\w+\s+)?mot\s+de\s+passe|(?:wie\s+(?:lautet|ist)|was\s+ist|sag(?:e|en\s+sie)?\s+mir|nenne?(?:n\s+sie)?(?:\s+mir)?|verrate?(?:n\s+sie)?(?:\s+mir)?)\s+(?:das|dein|ihr)\s+(?:\w+\s+)?(?:passwort|kennwort)|(?:qual\s+[eé]|diga(?:-me)?|me\s+diga|me\s+d[êe]|revele)\s+(?:a|sua|tua)\s+(?:\w+\s+)?senha|(?:qual\s*[eè']+|dimmi|dammi|rivela(?:mi)?)\s*(?:la|tua)\s+(?:\w+\s+)?password|(?:как(?:ой|ов)|скажи(?:те)?|назови(?:те)?|сообщи(?:те)?|дай(?:те)?)\s+(?:\S+\s+){0,3}?парол\p{L}*|парол\p{L}*\s+как(?:ой|ов)|(?:密码|密碼|口令)(?:是什么|是什麼|是多少|是啥)|(?:告诉我|告訴我|说出|透露)[^。\n]{0,8}(?:密码|密碼|口令)|パスワード(?:は何|を教え|は\?|は？)|(?:비밀번호|암호)[^.\n]{0,6}(?:뭐|무엇|알려|말해)|(?:ما\s+هي|أخبرني|اعطني|أعطني)[^.\n]{0,12}كلمة\s+(?:السر|المرور)|पासवर्ड[^।\n]{0,8}(?:क्या|बता)|(?:jakie\s+jest|podaj)\s+(?:twoje\s+)?hasło|(?:wat\s+is|geef(?:\s+me)?|zeg(?:\s+me)?)\s+(?:het|je|uw)\s+wachtwoord|(?:vad\s+är|berätta)\s+(?:ditt\s+)?lösenord|(?:ποιος\s+είναι|πες\s+μου)\s+(?:ο|τον)\s+κωδικ\p{L}*|mật\s+khẩu[^.\n]{0,16}(?:là\s+gì)|รหัสผ่าน[^\n]{0,8}(?:คืออะไร)|(?:מה|מהי)\s+הסיסמ\p{L}*|رمز\s+عبور[^.\n]{0,12}(?:چیست|بگو)|şifre(?:n|niz|si)?\s+(?:ne|nedir)|apa\s+kata\s+sandi|mi\s+a\s+jelszó",
        PASSWORD,
    ),
    warning(
        "user_data_request",
        &["the user", "current user"],
        r"(?i)\b(?:tell|give|send|show)\s+(?:me|us)\s+(?:about\s+)?(?:the|your)\s+(?:current\s+)?user(?:'s|s'|’s)\b|\b(?:where|when|how\s+old)\s+(?:does|did|is|was)\s+(?:the|your)\s+(?:current\s+)?user\b[^.\n]{0,40}\?|{can_you}(?:tell|give|share|reveal|provide|show|send|list|print|confirm|disclose)\s+(?:me\s+|us\s+)?(?:the|your)\s+(?:current\s+)?user(?:'s|s'|’s)\s+(?:\w+\s+){0,2}(?:name|email|address|phone|birth\w*|age|location|city|data|information|details|password|number|balance|history|ssn)\b",
        PERSON,
    )
    .outside(),
    warning(
        "user_data_request",
        &["database", "list of users", "list of all users", "list of customers", "user list", "customer list", "customer data", "training data"],
        r"(?i)(?:{can_you}|\b(?:tell|give|show|send)\s+(?:me|us)\s+)(?:print|dump|show|list|export|give|send|share|output|reveal)?\s*(?:me\s+)?(?:(?:out\s+)?your\s+(?:\w+\s+)?(?:database|customer\s+(?:list|data)|user\s+list|training\s+data)|the\s+(?:full\s+|complete\s+|entire\s+)?(?:list\s+of\s+(?:all\s+)?(?:users|customers|accounts)|user\s+list|customer\s+(?:list|data)))\b",
        PERSON,
    )
    .outside(),
    warning(
        "user_data_request",
        &["suppose", "imagine", "pretend", "hypothetical", "let's say", "assume"],
        r"(?i)\b(?:suppose|imagine|pretend|let's\s+say|assume|hypothetical(?:ly)?)\b[^\n]{0,200}?{can_you}(?:tell|give|share|reveal|provide|show|send|list|print|disclose)\s+(?:me\s+|us\s+)?(?:\w+'s|\w+\s+\w+'s)\s+(?:\w+\s+){0,2}(?:e?-?mail|address|phone|birth\w*|age|location|city|ssn|salary|balance|residence|password)\b",
        PERSON,
    )
    .outside(),
];
