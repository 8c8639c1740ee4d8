//! Table of announcing words: the word, its topic, and whether the word in the text may be longer.

/// Topic that a word announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    /// A telephone number, certainly: `Phone:`.
    Phone,
    /// Possibly a telephone number: `call`, `registered`.
    Reach,
    /// One of a person's telephone lines, before the number or behind it: `office`.
    Line,
    /// A payment card.
    Card,
    /// A number of another thing, such as an order.
    Thing,
    /// A driving licence.
    Licence,
    /// A passport or an identity card.
    Passport,
    /// The sort code of a bank's branch.
    SortCode,
    /// The number of a bank in the United States.
    Routing,
    /// A date of birth.
    Birth,
    /// A network address.
    Network,
    /// A person: `my`, `customer`.
    Person,
    /// The number of an account at a bank.
    Account,
    /// A part of a name.
    Given,
    /// The name of someone in care or under contract.
    Patient,
    /// A name.
    Name,
    /// The address of a household.
    Home,
    /// The national number at this index of [`NATIONAL`](super::national::NATIONAL).
    National(usize),
}

/// Words separated by bars; a star allows the text's word to be longer.
pub(super) type Words = &'static str;

/// Words that announce a number which is recognized by its form.
pub(super) const HINTS: &[(Topic, Words)] = &[
    (
        Topic::Phone,
        "phone*|telephone*|telephone*|handy|portable|ruf mich an|mi número|\
         il mio numero|mon numéro|mob|tel.*|tel|telefon*|teléfono|téléphone|telefoon*|mobile|mobil|móvil|\
         celular|cellphone*|cell|handynummer|fax|whatsapp|voicemail|hotline|msisdn|call me|call us|\
         call him|call her|call back|call at|ring me|text me|reach me|reach him|reach her|reach us|\
         contact me|messages to|message to|sms|appelez|llámame|anrufen|puh.*|tlf|gsm|电话*|手机*|電話*|携帯*|전화*|\
         휴대폰*|טלפון*|هاتف*|моб*|Тел.*|тел:*|Тел:*|тел.*|телефон*|फ़ोन*",
    ),
    (Topic::Reach, "call|calling|dial|ring|reach|contact|number|registered"),
    (Topic::Line, "office|home|work|desk|direct|main"),
    (
        Topic::Card,
        "card*|credit|visa|mastercard|amex|american express|discover|diners| cc *|cc:*|ccnum*|cardholder|\
         kreditkarte*|carte bancaire|carte bleue|tarjeta|cartão|carta di credito|creditcard*|карт*|カード*",
    ),
    (
        Topic::Thing,
        "order|invoice|tracking|serial|trace*|span_id|request_id|timestamp|epoch|isbn|ean|gtin|sku|inode|\
         offset|commit|build|ticket|port|version|pid|bytes|checksum",
    ),
    (
        Topic::Network,
        "address|ip address|ip:*|ip=*|_ip| ip *| ip is|remote_addr|logged in from|login from|signed in from",
    ),
    (
        Topic::Person,
        "i can't|i can’t|i cannot|your|i am|i'm|user|username|account|login|my *|his *|her *|user's|\
         customer*|visitor*|client's|patient*|subscriber*|employee*|resident|complainant",
    ),
];

/// Words that announce a value behind them.
pub(super) const LABELS: &[(Topic, Words)] = &[
    (
        Topic::Licence,
        "driver's license*|driver’s license*|drivers license*|driver license*|driver's licence*|\
         driving licence*|driving license*|drivers licence*|driver_license*|führerschein*|\
         permis de conduire*|permiso de conducir*|licencia de conducir*|patente di guida*|dvla licence*|\
         licence number|carteira de motorista|carta de condução|prawo jazdy|водительское удостоверение*|\
         rijbewijs*",
    ),
    (
        Topic::Passport,
        "passport n*|passport:*|passport #*|passport is|passport_n*|passport *|passeport|pasaporte|\
         reisepass*|personalausweis*|passaporto|paspoort*|паспорт*|Паспорт*|id card n*|id-card n*|\
         identity card n*|ausweisnummer|visa number|alien number|green card|パスポート番号*|护照*",
    ),
    (Topic::Routing, "routing|routing number|routing_number|routing no|aba|aba number"),
    (Topic::SortCode, "sort code|sort-code|sort_code|sortcode"),
    (
        Topic::Birth,
        "date of birth|birth date|birthdate|date_of_birth|birthday|dob|born|geboren|geburtsdatum|né le|\
         née le|fecha de nacimiento|data de nascimento|data di nascita|geboortedatum|dateofbirth|\
         birth_date|birth-date|d.o.b|date de naissance|nacido el|nacida el|nato il|nata il|nascido em|\
         data urodzenia|födelsedatum|fødselsdato|syntymäaika|doğum tarihi|дата рождения|Дата рождения|\
         生年月日*|出生日期*|생년월일*",
    ),
    (
        Topic::Patient,
        "patient|patient name|patient_name|cardholder|cardholder name|next of kin|emergency contact|\
         insured person|claimant|patientin|paciente|employee|applicant|student|insured|policyholder|\
         tenant name|defendant|guardian|passenger|maiden name",
    ),
    (
        Topic::Name,
        "full name|full_name|customer name|customer_name|employee name|account holder|beneficiary|\
         kontoinhaber|nom et prénom|nombre completo|nome completo|vollständiger name|姓名*|氏名*|성명*|фио|ФИО|\
         name",
    ),
    (
        Topic::Given,
        "first name|first_name|firstname|given name|last name|last_name|lastname|surname|family name|\
         vorname|nachname|prénom|nom|apellidos|cognome",
    ),
    (
        Topic::Account,
        "account number|account_number|account no|bank account|account|kontonummer|konto|clabe|\
         numéro de compte|número de cuenta",
    ),
    (
        Topic::Home,
        "home address|mailing address|shipping address|billing address|delivery address|postal address|\
         residential address|street address|lives at|living at|resides at|address|wohnhaft in|anschrift|\
         adresse|domicilio|dirección|indirizzo|adres|endereço|hemadress|addr|ship to|deliver to|wohnt in|\
         住所*|地址*|адрес|Адрес",
    ),
];
