//! Keys behind a word such as `KEY` with little between, and behind a service's name: `acme SECRET 0a1b…`,
//! `acme-key 123e4567-…`, `acmeTOKEN-…`. In: a text and the place of the name with the word. Out: the key. The weaker
//! its
//! shape, the stronger its context must be: the word in capitals, or the name of a service that issues keys.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;

use super::values;

/// Services whose keys have no form of their own.
const SERVICES: &str = "abuseipdb accuweather adafruit aftership aiven airbrake airship airvisual alegra algolia \
    alphavantage amadeus ambee amplitude anypoint apify apilayer apollo appcues appfollow appoptics artsy asana assemblyai \
    atera autodesk autoklose aviationstack axonaut aylien ayrshare azure baremetrics beamer beebole besttime betterstack \
    billomat bing bitbar bitbucket bitcoinaverage bitfinex bitly bitmex blazemeter blitapp blogger bombbomb borgbase brandfetch \
    browserstack browshot bscscan buddyns bugherd bugsnag buildkite bulksms buttercms caflou calendarific calendly \
    calorieninja campayn canny capsulecrm captaindata carboninterface cashboard caspio censys centralstationcrm cexio \
    chartmogul chatbot chatfuel checklyhq checkvist cicero clarifai clearbit clickhelp clicksend clickup cliengo clinchpad \
    clockify clockwork closecrm cloudelements cloudflare cloudimage cloudmersive cloudplan cloudsmith cloverly cloze \
    codacy codeclimate codecov codemagic codequiry coinapi coinbase coinlayer coinlib coinmarketcap collect2 commercejs companyhub \
    confluent contentful contentstack convertapi convertkit copper couchbase countrylayer coveralls craftmyapp crowdin \
    cryptocompare currencycloud currencyfreaks currencylayer currencyscoop currentsapi customerio dailyco dandelion \
    databox datadog datagov debounce deepai deepgram delighted demio deputy detectify detectlanguage diffbot \
    diggernaut digitalocean disqus documo docusign dovico dronahq droneci duply dwolla dynalist dyspatch eagleeyenetworks \
    easyinsight edamam edenai eightxeight elasticemail enablex endorlabs enigma etherscan ethplorer eventbrite everhour \
    exchangerate faceplusplus fastforex fastly feedier fetchrss fibery figma fileio finage financialmodelingprep findl \
    finnhub fixer flatio fleetbase flickr flightapi flightlabs flightstats flowflu flutterwave fmfw formbucket formcraft formio \
    formsite foursquare freshbooks freshdesk fxmarket gengo geoapify geocodio geoipify getemail getgeoapi getgist \
    getresponse getsandbox giphy gitter glassnode gnews gocanvas gocardless goodday graphcms graphhopper groovehq guardian \
    gumroad gyazo happyscribe harvest hellosign helpcrunch helpscout hereapi heroku holidayapi holistic html2pdf hunter.io \
    hypertrack iconfinder iexcloud imagekit imgix imgur infura insightly instabot instamojo interseller intercom invoiceocean \
    ip2location ipapi ipgeolocation ipify ipinfo ipquality ipstack jotform jumpcloud juro kanbantool karma kickbox \
    klaviyo klipfolio knapsackpro kontent kraken kucoin kylas languagelayer lastfm launchdarkly leadfeeder lemlist lendflow \
    lessannoyingcrm lexigram linkedin linkpreview liveagent livestorm locationiq loggly loginradius logz lokalise \
    loyverse magnetic mailboxlayer mailchimp mailerlite mailgun mailjet mailmodo mailsac mandrill mapquest marketstack mattermost \
    mavenlink maxmind meaningcloud mediastack meistertask mesibo messagebird metaapi metabase metrilo mindmeister mixmax \
    mixpanel mockaroo monkeylearn moonclerk moosend mrticktock myfreshworks myintervals nasdaq nethunt netlify neutrino \
    newrelic newsapi newscatcher nexmo nftport nicereply nightfall noticeable notion nozbe numverify nutritionix \
    nylas nytimes oanda okta omnisend onedesk onelogin onepagecrm onesignal oopspam opencage openuv openweather opsgenie \
    optimizely owlbot packagecloud pagarme pagerduty pandadoc pandascore paperform paralleldots parsehub parseur partnerstack \
    passbase pastebin paydirt paymo paymongo paypal paystack pdflayer pdfshift peopledatalabs pepipost percy phantombuster \
    pipedream pipedrive pivotaltracker pixabay plaid planview planyo plivo podio pollsapi poloniex positionstack postageapp \
    postbacks postmark powrbot privacy prodpad prospectcrm protocolsio proxycrawl pubnub pulsedive purestake pushbullet \
    pusher qase qualaroo qubole quickmetrics rapidapi rawg razorpay reachmail readme reallysimplesystems rebrandly \
    rechargepayments refiner rentman repairshopr requestfinance restpack revampcrm ringcentral ritekit roaring rocketreach \
    rollbar roninapp route4me rownd salesblink salescookie salesflare salesmate satismeter saucelabs scaleway scalr \
    scrapeowl scraperapi scraperbox scrapestack scrapfly scrapingant scrapingbee screenshotapi screenshotlayer scrutinizer \
    securitytrails segment selectpdf semaphore sendbird sendinblue serphouse serpstack sheety sherpadesk shipday shodan shortcut \
    shotstack shutterstock signable signalwire signaturit signupgenius sigopt simfin simplesat simplynoted simvoly sinch \
    sirv siteleaf skrapp skybiometry smartsheet smartystreets smooch snipcart snowflake snyk sonarcloud sourcegraph \
    sparkpost speechtext splunk spoonacular sportsmonk spotify square sslmate statuscake statuspage statuspal stitchdata \
    stockdata storecove stormboard stormglass storyblok storychief strava stripo stytch sugester sumologic supernotes \
    surveyanyplace surveybot surveysparrow survicate swell swiftype tatum taxjar teamgate teamwork technicalanalysis \
    tefter telnyx testingbot text2data textmagic theoddsapi thinkific thousandeyes ticketmaster tickettailor tiingo timezoneapi \
    tmetric todoist toggl tomorrow.io tomtom tradier transferwise transloadit travelpayouts travis trello truenas twelvedata \
    twilio twitch twitter tyntec typeform typetalk ubidots uclassify unifyid unplugg unsplash upcdatabase uplead uploadcare \
    uptimerobot upwave urlscan userflow userstack vatlayer vbout vercel verimail veriphone versioneye viewneo virustotal \
    visualcrossing voicegain vouchery vpnapi vultr vyte walkscore wandb weatherbit weatherstack webflow webscraper \
    webscraping wepay whoxy worksnaps workstack worldcoinindex worldweather wrike yandex yelp youneedabudget zapier zendesk \
    zenkit zenrows zenscrape zenserp zeplin zerobounce zerotier zipbooks zipcodeapi zoho zonka zulip";

static NAMES: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(SERVICES.split_whitespace()).ok());

/// Longest distance from a service's name to its key, in bytes.
const REACH: usize = 64;

/// Returns the key behind the name that ends at `end`. `loud` means that the word is written in capitals.
pub(super) fn key_after(text: &str, end: usize, loud: bool) -> Option<Range<usize>> {
    let start = end + gap(text.as_bytes().get(end..)?)?;
    let rest = text.as_bytes().get(start..)?;
    let run = rest.iter().take(257).take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
    let closed = rest.get(run).is_none_or(|b| b.is_ascii_whitespace() || b"\"'`,;)]}<".contains(b));
    let value = text.get(start..start + run).filter(|_| closed && (16..=256).contains(&run))?;
    let shape = shape(value)?;
    let known = || {
        let before = text.get(text.floor_char_boundary(start.saturating_sub(REACH))..start).unwrap_or_default();
        NAMES.as_ref().is_some_and(|names| names.is_match(before))
    };
    let convincing = match shape {
        Shape::Random => loud || known(),
        Shape::Ordered => known(),
    };
    (convincing && !values::is_marker(value)).then_some(start..start + run)
}

/// Returns the length between a name and its key: blanks, signs, and up to two more words of the kind.
fn gap(bytes: &[u8]) -> Option<usize> {
    const WORDS: [&[u8]; 6] = [b"key", b"token", b"secret", b"access", b"private", b"is"];
    let sign =
        |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b'=' | b':' | b'>' | b'"' | b'\'' | b'`' | b'-' | b'(');
    let mut at = 0;
    for _ in 0..3 {
        let signs = bytes.get(at..)?.iter().take(6).take_while(|b| sign(b)).count();
        // `-----END … KEY-----`: the next block follows.
        if bytes.get(at..at + signs)?.starts_with(b"--") {
            return None;
        }
        at += signs;
        let word = bytes.get(at..)?.iter().take(8).take_while(|b| b.is_ascii_alphabetic()).count();
        let spelt = bytes.get(at..at + word)?;
        if !WORDS.iter().any(|known| known.eq_ignore_ascii_case(spelt)) {
            break;
        }
        at += word;
    }
    (at > 0).then_some(at)
}

enum Shape {
    /// Random letters and digits.
    Random,
    /// A shape that could also name a thing: a UUID, groups of capitals, a short run, an alphabet.
    Ordered,
}

fn shape(value: &str) -> Option<Shape> {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let distinct = values::distinct(value);
    if digits < 2 || letters < 2 || distinct < 8 || values::has_run(value, 6) || values::says_placeholder(value) {
        return None;
    }
    if values::is_uuid(value) || is_grouped(value) {
        return Some(Shape::Ordered);
    }
    // Words joined by signs are a name.
    let part = value.split(['-', '_']).map(str::len).max()?;
    if part < 16 {
        return None;
    }
    let random = value.len() >= 20 && values::is_mixed(value) && values::entropy(value) >= 3.0 && !is_counting(value);
    Some(if random { Shape::Random } else { Shape::Ordered })
}

/// True for `ABCDEFG-1234567-…`: four or more groups of capitals and digits, each of four bytes or more.
fn is_grouped(value: &str) -> bool {
    let group = |part: &str| part.len() >= 4 && part.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    value.split('-').count() >= 4 && value.split('-').all(group)
}

/// True if half of the bytes are followed by their successor, as in an alphabet.
fn is_counting(value: &str) -> bool {
    let steps = value.bytes().zip(value.bytes().skip(1)).filter(|(a, b)| a.wrapping_add(1) == *b).count();
    steps * 2 > value.len()
}
