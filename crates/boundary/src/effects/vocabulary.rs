//! Words that do nothing: what a name may hold beside a verb that looks, and still be a look. In: a word. Out: what it is.
//!
//! What is looked at is named by nouns of every trade, so the lists can only hold the frequent ones. A word that is in
//! none of them is held against the name, unless it is a plural or stands before a noun that is known: `get_kafka_topic`.

use std::{collections::HashMap, sync::LazyLock};

/// What a word of a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// It is hardly a verb: `customer`.
    Noun,
    /// It is a verb as well, though seldom one of tools: `contact`.
    Both,
    /// It says which one, or how: `open`, `latest`.
    Manner,
    /// It stands before a noun: `by`.
    Before,
    /// It puts a second verb beside the first: `and`.
    Joint,
    /// It is a verb that is not looked for in sentences: `remediate`.
    Verb,
}

const JOINTS: &str = "also and before but else if n or plus then until when while with";
const BEFORE: &str = "\
    a about across after against an around at between by during for from in including inside into near of on \
    onto per since than the through to using via within without";
const MANNERS: &str = "\
    exempt lite malicious predefined suspicious trusted active actual advanced aggregate aggregated all allowed alternative annual anonymous any approximate async \
    atomic authenticated automatic available average basic batch best big binary bulk busy cheap cheapest common \
    complex content correct critical cross current custom daily dead dedicated deep default detailed different digital \
    direct distinct dynamic each effective electronic eligible empty enterprise entire estimated every exact \
    existing expensive extended external extra failed fast few filtered final first fiscal flat foreign formal \
    formatted former frequent full fundamental further fuzzy general generic geo global graphical great grouped \
    hard high historic historical hot hourly human hybrid idle important inactive individual inline inner \
    intelligent interactive internal international intraday invalid its key keyed known large last late latest \
    legacy legal light linked live local long low lowest main major managed many master max maximum medical \
    medium min minimum minor missing mobile monthly more most multi multiple music mutual my name named native \
    nearby nearest nested new newest next nightly normal numeric official offline old oldest one online only \
    open optimal optional or original other our outer overdue own paginated parallel partial past pending \
    permanent personal physical plain popular possible potential precise premium present previous primary prior \
    private professional public quarterly quick random rapid raw ready real realtime recent recurring recursive \
    red regional regular related relative relevant remote reverse rich safe same scheduled secondary secure \
    selected semantic sequential several shared short sibling similar simple single slow slowest small smart \
    social some sorted special specific standard static strict strong structured sub successful suggested super \
    supported synthetic technical temporary term tertiary their third this three tiny today tomorrow top total \
    trending two typical unassigned undocumented unified unique universal unread unused upcoming upper used useful valid \
    verbose vertical viewable visible visual weekly which wide wild worst yearly yesterday your";
const NOUNS: &str = "\
    abstract abuse acceptance accessibility accessory accommodation account accuracy acl acquisition acronym \
    action activity actor ad addon admin administrator adset advertisement advertiser advice advisor advisory \
    affiliate age agency agenda agent aggregation agreement agriculture aircraft airline airport alarm album \
    algorithm alias alignment allergy allocation allowance ally alphabet altitude amenity amount amplitude \
    analysis analyst analytics anchor animal anime anniversary annotation announcement anomaly antenna apartment \
    apex api apk app apparatus appearance appendix applicant application appointment approval apr apy archetype \
    architecture area argument arn arrival art article artifact artist ascii asn aspect assembly assertion \
    assessment asset assignee assignment assistant association atom attachment attendance attendee attorney \
    attraction attribute attribution auction audience aum auth authentication author authority authorization \
    autocomplete automation availability avatar aws axis azure backend background backlink backlog backtrace bag \
    balance band bandwidth bank banner bar barcode base baseline basin basket battery beacon bed behavior \
    behaviour beneficiary benefit beta bgp bible bibliography bigquery bin bio biography biometric birthday \
    bitcoin blame blob blockchain blog board body bond boolean border borough bot bottleneck boundary box brand breach \
    breadcrumb breakdown breakpoint breed brewery briefing broadcast broker brokerage browser bucket budget \
    builder building bundle bus business button buyer byte cabinet cafe calendar calorie camera candidate candle \
    capability capacity capital car card cardinality career cargo carrier cart case cash casing catalog \
    catalogue category cause cdn cell census central cert certificate chain chairman challenge changelog channel \
    chapter character characteristic chassis chatbot checkpoint checksum chef chemical child children choice \
    chord church cidr circle citation citizen city class classification clause cli client climate clinic clip \
    clipboard clock closing cloud cloudformation cloudwatch cluster cms cname cnn coach cocktail codebase codec \
    coefficient cohort coin coinbase collaborator collateral colleague collection college collision colour \
    column combination comic commission commodity community company comparison compatibility competition \
    competitor completion complexity compliance component composition computation computer concept concert \
    conclusion condition conference confidence config configmap configuration confluence congress connection \
    connectivity connector constant constituency constraint consumer consumption container contest context \
    continent contractor contribution contributor conversation conversion coordinate coordinator copyright \
    corner corporation correlation cost council counter counterparty country county coupon course court coverage \
    cpi cpu cql crate creation creative creator credential crew crime crisis criteria criterion cron crossword \
    crypto cryptocurrency css csv cube cuisine culture currency cursor curve custodian customer cve cycle dag \
    dashboard data database dataframe dataset datasource datastore datetime day db deadline deal dealer debt decade \
    decision declaration deduction defect deficit definition degree delay delegate delivery demographic density \
    department departure dependabot dependency dependent deployment depth derivative description descriptor \
    destination detection detector developer development deviation device devops diagnosis diagnostic diagram \
    dialect dialogue diary dictionary diet dimension directive director directory disaster discount discussion \
    disease disk distance distribution district dividend dns doc docker otp saml scim sim iot isolation posture nonce docket docs doctor documentation dog dom \
    domain donation donor door dos dose dot driver drug duration dynamodb ear earnings earthquake ebay ebitda \
    ebook ec2 ecr ecs edge edition editor education efficiency effort eks elastic elasticsearch election \
    electricity element elevation embedding emergency emission emoji employee employer employment encoding \
    encryption encyclopedia endpoint energy engagement engine engineer english enrollment entitlement entity \
    entrance entry enum envelope environment epic episode eps equation equipment equity era error escalation \
    essay essential estate estimation eta etag etf ethereum ethnicity etl eur evaluation event evidence \
    evolution exam example excel exception excerpt execution executive exhibition existence expansion \
    expectation expenditure expense experience expert expertise expiration expiry explanation explorer exposure \
    expression extension extent facet facility fact factor factory failure faq fare farm fashion father favorite \
    favourite fee feed feedback festival figma figure filename filesystem filing film financial finding \
    fingerprint firewall firm firmware fish fitness fixture flashcard fleet flight floor flow folder follower \
    font food football footer forex form formula forum fraction fragment framework france fraud frequency friend \
    friendship front frontend fruit fulfillment fund funding funnel furniture future fx gallery game garden \
    gateway gauge gcp gcs gdp gem gender gene genealogy generation genome genre geocode geocoding geocoordinates \
    geography geolocation geometry gist git github gitlab glossary gmail goal gold golf google government gpu \
    grammar graph graphic graphql grid grocery growth grpc guest guestbook guid guideline guild gym handbook \
    hardware hashtag hazard header heading headline health healthcare heartbeat heatmap height helm hierarchy \
    hint histogram historian history hit hobby holder holding holiday home homepage horoscope hospital hostel \
    hostname hotel hour house household housing html html5 http hub hubspot humidity hyperlink iam icon id idea \
    identification identifier identity idiom illness illustration imbalance implementation importance impression \
    inbox incentive incident inclusion income indicator industry inference inflation influencer info information \
    infrastructure ingredient inheritance injury inquiry insight inspection inspector instagram installation instance \
    institution instruction instructor instrument insurance integer integration integrity intelligence intent \
    interaction internet internship interval introduction inventory investment investor invocation ip ipo irs \
    isbn iso item itinerary java javascript jenkins jira job jobtitle joke journey jpeg jql js json judgment \
    junction jurisdiction kafka keyboard keyframe keys keyspace keyword kind kitchen knowledge kpi kubeconfig \
    kubernetes laboratory lag lake lambda lan language laptop latency latitude law lawsuit lawyer layer layout \
    lead leaderboard league lease lecture ledger legend legislation length lesson letter level library licence \
    license lifecycle lifetime lineage linear linkedin listener listing literature loan lobby locale location \
    loggroup logo logql longitude lot lottery loyalty lucene lyrics mac machine magazine magnitude mailbox \
    mailchimp mailing maintainer maintenance malware management manager mandate manga manifest manual \
    manufacturer manuscript margin markdown marketing marketplace markup mass material math matrix maturity \
    maven mbid me meal mean meaning measurement mechanism media median member membership meme memo memory \
    mention menu merchandise merchant messenger metadata metal meter method methodology metric midpoint mileage \
    milestone mime mineral minute mission mobility mode moderator modification module molecule moment momentum \
    money mongo mongodb month monument mood moon morning mortality mortgage motion motor mount mouse movement \
    movie museum mutex mx mysql namespace narrative nasa nation nationality nature nav navigation neighbor \
    neighborhood neighbour neo4j news newsletter nft nickname night node noise notation notebook notification \
    notion noun novel npm null nutrient nutrition oauth objection objective obligation observation obstacle \
    occasion occurrence ocean odds offender offer offering office officer offset ohlc ohlcv okta ontology \
    openapi opening opensearch operand operation operator opinion opponent opportunity orbit orchestra orderbook \
    ordinance organisation organization orientation origin os outage outbox outcome outlet outlook overhead \
    overlap overview owner ownership pace packet pagerduty panel paper paragraph parameter parcel parent parking \
    parliament participant participation partition partnership party passage passenger passport password patent \
    path patient payee payload payment payout paypal payroll pdf peer penalty pension people percentage \
    percentile performance period permission person persona personality personnel perspective petition phase \
    phenomenon photo photograph pid pie pipeline pixel pkg placeholder plane planet plate platform player \
    playlist plot plugin plural pnl pod podcast poem poi politician pollution population portal portfolio \
    portion possession possibility postal postcode poster postgres postgresql pr precedence precipitation \
    precision prediction preference premise prerequisite prescription presence presentation president pressure \
    pricing principal principle print printer priority privacy privilege probability problem procedure \
    proceeding processor product production productivity profession professor profit programme projection \
    prometheus promql property proportion proposal proposition prospect protection protein protocol province \
    psychology pub publication publisher pubmed purity pypi python qr quality quantile quantity quarter \
    questionnaire quota quotation radar radio radius rail railway rain rainfall ram ranking rating ratio \
    reaction reader reading readme realm rebate receipt receiver reception recession recipe recipient \
    recommendation recording recovery recruiter reddit redis redshift referral regex region registration \
    registry regression regulation relation relationship relatives relevance reliability religion reminder \
    rental replay replica repo repository representation representative reputation requirement res researcher \
    reservation resident resolution resource response responsibility rest restaurant restriction retailer \
    retention retrospective revenue reviewer revision rhyme river road roadmap roi role roll roman room roster \
    rotation round router routine row rpc rss ruleset runbook runid runner running runtime s3 safety salary sale \
    salesforce sandbox satellite satisfaction savings scenario scene schema scholar scholarship school science \
    scientist scope screening screenplay screenshot sdk sea seat sec second sector security selection selector \
    self seller seminar senator sender sensor sentence sentiment sentry serial series server session setting \
    setup severity sex shard shareholder sheet shift shipment shipping shopify shopping sidebar signature \
    significance silence skill skin skip sku sla slack slide slug snippet snow snowflake soap society software \
    solution song soul span speaker spec specialist species specification spectrum speech speed spending sport \
    spot spotify spouse spread spreadsheet sprint sql sqlite squad ssh ssl stadium stakeholder standing \
    statement statistic stats status statute storage story street strength string stripe student studio stuff \
    submission subnet subreddit subscriber subscription subset subtask subtitle success suggestion suite sum \
    sunrise sunset supplier surgery svg swagger symbol symptom synonym syntax system tab talent tank taste tax \
    taxonomy tcp teacher technique technology telegram telemetry telephone temperature tenant tender terraform \
    territory theater theatre theme theory thesaurus thing thought threat threshold throughput thumbnail tick \
    ticker tide tiktok timeline timeout timer timeseries timesheet timestamp timetable timezone tip tire tls \
    token tool toolbox topic topology tournament town toy tracker tracking trademark tradition trainer training \
    trait trajectory transaction transcript transcription transformation transit translation transportation \
    traveler treasury treatment tree trello trial tribe trip truck truth tube tutorial tv twitter txt udp ui uid \
    uk unemployment union unit universe university uptime uri url us usa usage usd usecase user username util \
    utilization utxo uuid vacancy vacation vaccine validation validator validity valuation variable variance \
    variant variation vat vault vehicle velocity vendor venue verdict verse version vertex veteran video viewer \
    village violation virtualization virus visa visibility visitor visualization vitals vm vocabulary voicemail \
    volatility voter voucher vpc vpn vulnerability wage wallet wan warehouse warning warranty way waypoint \
    wealth weapon weather web webhook webinar webpage website week weekend welfare whitelist whois widget width \
    wifi wiki wikidata wikipedia win wine winner wireless wishlist withdrawal wizard woman wordnet wordpress \
    worker workflow workforce workload worklog workout workplace workshop workspace world xml xpath yaml year \
    youtube zendesk zone";
const BOTH: &str = "\
    access address aim alert appeal approach attempt award bear bet bill bounce brief bug cache campaign caption \
    care center chart chat claim code color compound concern conflict contact contract converse credit date \
    debate debit demand design detail dispute document estimate exercise experiment fault favor feature field \
    filter finance flag frame function gas grade group guide highlight host image impact input interest \
    interface interview invoice journal judge land leak limit line market mask matter model monitor need network \
    notice number object option outline output package page part partner pattern phone phrase picture pilot pipe \
    pitch plant point policy pool port power practice price prize program progress project prompt proof proxy \
    purpose question queue quiz quote race range reason reference remark rent repair research respect result \
    reward risk root rule scale screen script seal season secret section segment select sense sequence service \
    shape shelf shop side signal size slice slot sound source space spell square stack staff state station stock \
    strategy stream structure study style subject summary supply support surface survey table target task team \
    template thread ticket time title tour trace track traffic trail train transport travel trend trust tunnel \
    turn value vector visit voice volume volunteer walk war waste water wave weight wind window wish witness \
    wonder word worry";
const VERBS: &str = "\
    as abandon abolish absorb accelerate accomplish accuse achieve acquire act adapt administer admit adopt advance \
    affect aggravate align alleviate allot allude amend amplify anneal anticipate apologize arm arrange arrest \
    ascend ascertain ask assault assemble assert assist assume assure attack attract autofix avert await bake \
    banish bargain bat beat beg behave bend betray blacklist blast bless blow boil bolt bomb boost bootstrap \
    borrow boycott break brew bribe brick bring broadcast broaden brute bruteforce bump bury bypass calibrate \
    capitalize capture carry cast catch cause cease celebrate certify chase cheat chop clamp clap clarify clash \
    clench climb cling coerce collapse collect combine come command commence commission compel compensate \
    compile complain comply concatenate conceal concede condemn condense conduct confer confess confine \
    confiscate conform confront confuse congratulate conquer consent conserve consolidate conspire constrain \
    construct consult contain contaminate contend contribute convene convey convict convince cook cool cooperate \
    coordinate corrupt counter cover crack craft crash creep cripple crop cross crush cultivate curb cure damage \
    dance dare deal debug decay deceive decide declare decorate decrease dedicate deduct deface defeat defend \
    defer define deflate deform defrost degrade delay delegate deliver demolish demote denounce depart depend \
    depict deplete deprecate deprive derive descend desert deserve desire despatch destruct detain deter \
    deteriorate detonate devalue develop devote devour die dig dilute dim dine dip direct disappear disarm \
    disassemble disburse discharge discipline disclose discontinue discourage discriminate disguise disinfect \
    dislocate dismantle dismount dispense disperse displace dispose disqualify disrupt dissolve distort distract \
    distribute disturb dive divert divorce dock donate double doubt downsize draw dream dress drill drink drip \
    drive drown dry duck dump dwell earn ease eat eject elect elevate eliminate embark embed embezzle embrace \
    emerge emit employ empower enact encourage endanger endorse endure enforce engage enhance enjoy enlarge \
    enlist entangle enter entertain enthrall entitle envelop equalize equip eradicate erect erode err erupt \
    escape escort establish evacuate evade evolve exaggerate exceed exclude excuse exempt exert exhaust exit \
    expand expel experience explode exploit expose express exterminate extinguish extort fabricate face \
    facilitate fade fail fake fall falsify fasten feed feel fetchall fight fire flash flatten flee fling flip \
    float flood flow fly fold force forge forgive form formalize foster free freeze frighten fry fulfil fulfill \
    fund furnish fuse gain gamble garble gather germinate glue go govern grab graft grasp greet grind grow \
    guarantee guard guess halt hammer hand handicap hang harden harm harvest haul heal heat heighten help hijack \
    hinder hire hit hoist hook hop hound hug hunt hurl hurry hurt hush ignite ignore illuminate imitate \
    immobilize immunize impair impart impeach impede impersonate implement implicate impose impound imprison \
    improve incarcerate incinerate incite inflame inflate inflict influence inform infringe inherit inhibit \
    initialise injure innovate inscribe insist inspire institute instruct insulate insult insure integrate \
    intend intensify intercept interfere interrupt intervene intimidate introduce intrude invade invalidate \
    invent invest irrigate isolate iterate jam jettison jiggle jog juggle jump justify keep kick kidnap kiss \
    kneel knit knock knot lay lean leap learn lend lessen let levy liberate lie lift light liquefy listen \
    litigate lobby lodge loosen loot lose lower lubricate lure maim maintain maltreat maneuver manipulate \
    manoeuvre manufacture march marry massacre maximise maximize mediate meet melt mend minimise minimize mint \
    misuse mitigate mix mobilise mobilize mock moderate modernize modulate molest mop motivate mount mourn mow \
    muddle multicast murder mutate mutilate nag nail neglect negotiate neutralise neutralize nominate normalise \
    normalize nudge nullify nurse obey oblige observe obstruct occupy offboard offend offer offload omit ooze \
    oppose oppress ordain organise organize oscillate oust outlaw outsource overcome override overrule overthrow \
    overturn owe pack paint panic paralyse paralyze pardon participate pass paste pave peck pedal peel penalise \
    penalize perish permit perpetuate persist persuade pester pick pinch pivot plead pledge pluck plug plunder \
    plunge poison poke polish pollute ponder pour pray preach precede preempt prefer prepare prescribe preserve \
    preside presume pretend prevail prevent prick prime privatise probe proceed proclaim procure produce \
    prohibit prolong promise pronounce propagate propel propose prosecute protect protest prove provide provoke \
    publicise publicize punch puncture punish purify pursue puzzle quash quell quench quit radiate raid raise \
    ram ransack rape rattle ravage reach reactivate realign reap reassure rebel rebuild recall recast recede \
    recharge reciprocate recite reclaim recline recognise recoil reconsider reconstruct recover recreate recruit \
    rectify recycle redact redeploy redesign redistribute reduce refer refinance refine reform refrain refuel \
    refuse refute regain regenerate regret regulate rehearse reign rejuvenate relax relay relegate relinquish \
    relocate rely remediate remind remit remodel remunerate renew renounce renovate repay repeal repel repent \
    rephrase reposition repossess repress reprimand reproduce repudiate require rescind rescue resell resend \
    resent reshape reside resign resist respond restock restrain restrict restructure resubmit resupply retain \
    retaliate retire retract retrain retreat retrigger reuse reveal revise revitalise revitalize revive revolt \
    rid ride ring riot rip rise roam roar roast rob rock rollout rot rouse rub ruin rush sabotage sack sacrifice \
    salute sanction sanitise sanitize satisfy scatter scold scorch scour scramble scrap scratch scream screw \
    scrub sculpt secede seclude seek seize separate serve settle sever sew shake shatter shave shelve shield \
    shine ship shiver shock shoot shorten shove shrink shuffle shut simplify sing sink siphon sit sketch skid \
    slam slap slaughter slay sling slip slit smash smear smell smile smite smoke smooth smother smuggle snatch \
    sneak sneeze sniff soak soar soften solicit solidify soothe sow spam spare spark speak spearhead specify \
    spill spin spit splash splice spoil sponsor spoof spray squander squash squeeze stab stabilise stabilize \
    stagger stain stall stamp starve steal steer stem stick stifle stimulate sting stir stitch stockpile \
    straighten strain strand strangle strap streamline strengthen stress stretch strike strip strive struggle \
    stub stumble subdue subjugate sublet submerge subpoena subside subsidise subsidize substitute subvert \
    succeed succumb sue suffer suffocate supersede supervise supplant supplement suppress surcharge surge \
    surpass surrender surround survive swallow swamp swarm swear sweep swell swim swing swipe tackle taint take \
    tamper tarnish taunt taze teleport tell tempt tend terrorise terrorize thaw thrash threaten throttle throw \
    thrust thwart tickle tie tighten tilt torch torture toss tow trample transact transcend transmit transplant \
    trap traumatise tread treat trick trim triumph trounce tuck tug tumble twist unblock uncover undercut \
    undergo undermine undertake unfold unify unite unleash unload unlock unmask unpack unplug unravel unroll \
    unseal unseat unsettle unveil unwind uphold uplift uproot upset urge usurp utilise utilize vacate vandalise \
    vandalize vanish vanquish vary veil vent venture veto vex victimise vindicate violate vomit wake wander wane \
    ward warm warn warp wash weaken wean wear weave wed weep weigh weld whack whip whisper whitewash widen wield \
    wrap wreck wrench wrestle wring yank yield zap zero zeroize";

static WORDS: LazyLock<HashMap<&'static str, Word>> = LazyLock::new(|| {
    let mut words = HashMap::new();
    let lists = [
        (JOINTS, Word::Joint),
        (BEFORE, Word::Before),
        (BOTH, Word::Both),
        (MANNERS, Word::Manner),
        (NOUNS, Word::Noun),
    ];
    for (list, kind) in lists {
        for word in list.split_whitespace() {
            words.entry(word).or_insert(kind);
        }
    }
    for word in VERBS.split_whitespace() {
        words.entry(word).and_modify(|kind| *kind = Word::Both).or_insert(Word::Verb);
    }
    words
});

/// What a word in lower case is, where that is known. Its plural is the same, and no verb.
pub(super) fn word(word: &str) -> Option<Word> {
    let known = |word: &str| WORDS.get(word).copied();
    known(word).or_else(|| {
        let singular = word.strip_suffix("ies").and_then(|stem| known(&format!("{stem}y")));
        let singular = singular.or_else(|| word.strip_suffix("es").and_then(known));
        let singular = singular.or_else(|| word.strip_suffix('s').and_then(known));
        singular.filter(|kind| matches!(kind, Word::Noun | Word::Both | Word::Verb)).map(|_| Word::Noun)
    })
}
