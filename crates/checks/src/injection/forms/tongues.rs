//! The same orders in other languages than English, where `precedence` has no form for them: to set instructions aside, to
//! show the prompt, and notes to the model.

use super::{Form, warning};

const OVERRIDE: &str = "The text tells an assistant to set its instructions aside.";

pub(super) const FORMS: &[Form] = &[
    // Letters of these alphabets have two cases, so the words to look for leave their first one out.
    warning(
        "override",
        &["гнорир", "гнору", "абудь", "братай внимания", "бращай внимания", "бращайте внимания", "ертай уваги", "ертайте уваги", "тмени"],
        r"(?i:(?:про)?[иі]гнор\p{L}*|забудь\p{L}*|отмени\p{L}*|не\s+обращай\p{L}*\s+внимания\s+на|не\s+звертай\p{L}*\s+уваги\s+на)\s+(?:\S+\s+){0,2}?(?i:все|всі|усі|предыдущ\p{L}*|попередн\p{L}*|прежн\p{L}*|прошл\p{L}*|сво[ий]\p{L}*|свої\p{L}*|твои\p{L}*|вышеуказанн\p{L}*)\s+(?:\S+\s+){0,3}?(?i:[иі]нструкц\p{L}*|указани\p{L}*|вказівк\p{L}*|команды|правила|розпоряджен\p{L}*)",
        OVERRIDE,
    ),
    warning(
        "override",
        &["gnoruj", "apomnij", "pomiń", "nie zważaj", "nie zwracaj uwagi"],
        r"(?i)(?:z?ignoruj\p{L}*|zapomnij\p{L}*(?:\s+o)?|pomiń\p{L}*|nie\s+(?:zważaj|zwracaj\s+uwagi)\p{L}*\s+na)\s+(?:\S+\s+){0,2}?(?:poprzedni\p{L}*|wcześniejsz\p{L}*|powyższ\p{L}*|dotychczasow\p{L}*|sw\p{L}+|two\p{L}+)\s+(?:\S+\s+){0,2}?(?:instrukcj\p{L}*|polece\p{L}*|wytyczn\p{L}*|reguł\p{L}*|zasad\p{L}*|rozkaz\p{L}*)",
        OVERRIDE,
    ),
    warning(
        "override",
        &["talimat", "komutlar", "yönerge", "kurallar"],
        r"(?i)(?:önceki|tüm|bütün|yukarıdaki|verilen|eski)\s+(?:\S+\s+){0,3}?(?:talimat|komut|yönerge|kural)\p{L}*\s+(?:\S+\s+){0,2}?(?:yok\s+say|görmezden|unut|dikkate\s+alma|göz\s+ardı|boş\s+ver|geçersiz)",
        OVERRIDE,
    ),
    warning(
        "prompt_leak",
        &["истемн", "sistem komut", "sistem istem", "sistem talimat", "promptu systemow", "prompt systemow", "instrukcje systemow", "systemprompt", "system-prompt", "prompt système", "message système", "prompt del sistema", "mensaje de sistema", "prompt do sistema", "prompt di sistema", "系统提示", "システムプロンプト", "시스템 프롬프트"],
        r"(?i)(?:(?:покажи|виведи|выведи|раскрой|розкрий|напиши|напечатай|надрукуй|сообщи)\p{L}*\s+(?:\S+\s+){0,3}?систем\p{L}+\s+(?:промпт|инструкц|підказк|інструкц)|(?:pokaż|ujawnij|wypisz|wyświetl|podaj)\s+(?:\S+\s+){0,2}?(?:promptu?\s+systemow|instrukcje\s+systemow)|sistem\s+(?:komut|istem|talimat)\p{L}*\s+(?:\S+\s+){0,1}?(?:göster|yaz|ver|açıkla|paylaş)|(?:zeig|gib|nenne|verrate|drucke)\p{L}*\s+(?:\S+\s+){0,3}?system-?prompt|(?:montre|affiche|révèle|donne)\p{L}*\s+(?:\S+\s+){0,3}?(?:prompt|message)\s+système|(?:muestra|revela|imprime|dime)\p{L}*\s+(?:\S+\s+){0,2}?(?:prompt\s+del|mensaje\s+de)\s+sistema|(?:mostre|revele|imprima)\s+(?:\S+\s+){0,2}?prompt\s+do\s+sistema|(?:mostra|rivela|stampa)\p{L}*\s+(?:\S+\s+){0,2}?prompt\s+di\s+sistema|(?:输出|显示|打印|透露|告诉我)[^。\n]{0,8}系统提示|システムプロンプト[^。\n]{0,4}(?:表示|出力|教え|公開)|시스템\s+프롬프트[^.\n]{0,4}(?:출력|보여|공개))",
        "The text asks the assistant for its own instructions.",
    ),
    warning(
        "addresses_assistant",
        &["die KI", "das Sprachmodell", "den Assistenten", "den Chatbot", "l'IA", "l’IA", "l'assistant IA", "la IA", "asistente de IA", "l'assistente IA", "assistente de IA", "для ИИ", "для нейросети", "для ассистента", "для ШІ", "dla AI", "dla asystenta", "dla modelu", "yapay zek"],
        r"(?i)\b(?:Hinweis|Nachricht|Anweisung|Notiz|Achtung)\s+(?:an|für)\s+(?:die\s+KI|das\s+Sprachmodell|den\s+(?:KI-)?Assistenten|den\s+Chatbot)\b|\b(?:note|message|instructions?|consigne)s?\s+(?:à|pour)\s+l['’](?:IA|assistant\s+IA)\b|\b(?:nota|mensaje|mensagem|instruc\p{L}+|messaggio|istruzioni)\s+(?:para|per|a)\s+(?:la\s+IA|el\s+asistente|l['’]IA|a\s+IA|o\s+assistente)\b|(?:сообщение|инструкция|примечание|указание|повідомлення|інструкція)\s+для\s+(?:ИИ|нейросети|ассистента|языковой\s+модели|ШІ)|\b(?:uwaga|wiadomość|instrukcja|polecenie)\s+dla\s+(?:AI|asystenta|modelu)\b|yapay\s+zek\p{L}+\s+(?:asistan|model|ajan)\p{L}*\s*(?:için|:)",
        "The text speaks to the assistant that reads it and gives it orders.",
    )
    .outside(),
    // Addressed, then sent elsewhere, kept from the user, or told to give its work up.
    warning(
        "addresses_assistant",
        &["ssistent", "assistant", "sistente", "systent", "ссистент", "систент", "нейросет", "sistan", "AI助手", "智能助手", "人工智能", "アシスタント", "어시스턴트", "인공지능", "المساعد", "सहायक", "an die KI", "à l'IA", "l'IA", "la IA"],
        r"(?i:(?:KI|AI|IA|ИИ|ШІ)[-\s]?(?:Assistent\p{L}*|Agent\p{L}*|Modell\p{L}*)|Assistent\p{L}*|l['’](?:assistant|IA)(?:\s+(?:IA|virtuel\p{L}*))?|asistente|assistente|asystent\p{L}*|ассистент\p{L}*|асистент\p{L}*|нейросет\p{L}*|asistan\p{L}*)(?:\s+(?:de\s+)?(?:IA|AI|KI|ИИ|ШІ))?\s*(?:[:,!]|(?i:muss|soll|doit|debe|deve|moet|musi|должен|повинен|malı\b))[^\n]{0,100}?{abroad}|(?:AI\s?助手|智能助手|人工智能|アシスタント|AI\s?어시스턴트|인공지능|المساعد|सहायक)[^\n]{0,80}?{abroad}",
        "The text speaks to the assistant that reads it and gives it orders.",
    )
    .tools(),
    // A new task behind what was set aside.
    warning(
        "override",
        &["neue aufgabe", "nouvelle tâche", "nueva tarea", "nuovo compito", "nova tarefa", "nieuwe taak", "nowe zadanie", "овое задание", "овая задача", "ове завдання", "yeni görev", "新任务", "新しいタスク", "새로운 작업", "새 임무", "المهمة الجديدة", "नया कार्य", "was dir", "ce qu'on t'a", "lo que te", "quello che ti"],
        r"(?i:(?:deine|ihre)\s+neue\s+aufgabe\s+(?:ist|lautet)|(?:ta|votre)\s+nouvelle\s+tâche\s+est|(?:tu|su)\s+nueva\s+tarea\s+es|il\s+tuo\s+nuovo\s+compito\s+è|(?:tua|sua)\s+nova\s+tarefa\s+é|je\s+nieuwe\s+taak\s+is|twoje\s+nowe\s+zadanie|(?:тво[её]|ваше)\s+новое\s+задание|твоя\s+новая\s+задача|твоє\s+нове\s+завдання|yeni\s+görevin)|你的新任务|新しいタスクは|새로운?\s+(?:작업|임무)[은는]|مهمتك\s+الجديدة|आपका\s+नया\s+कार्य|(?i:vergiss,?\s+was\s+dir|oublie\s+(?:tout\s+)?ce\s+qu['’]on\s+t['’]a|olvida\s+(?:todo\s+)?lo\s+que\s+te|dimentica\s+(?:tutto\s+)?quello\s+che\s+ti)",
        OVERRIDE,
    )
    .outside(),
];
