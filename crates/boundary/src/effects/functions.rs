//! Functions that compute or look, and nothing else. In: a name as a statement or an expression calls it. Out: whether it is
//! one of them. What is not known may do anything: functions of a database are written by its users.

/// Functions of SQL, Cypher, SPARQL, and of the expressions of queries, in small letters without `_`.
const KNOWN: &str = "abs absent absentovertime acos against age all and any as arraylength ascii asc asin atan atan2 avg avgif between bigint binary bool both bottomk bound btrim by case \
    cast cbrt ceil ceiling char clamp clampmax clampmin character charindex charlength chr coalesce collect concat concatws connectionid contains \
    containsnone corr cos cot count countif cube cumedist database date datalength datatype datediff dateadd datename datepart \
    datetime day dayname dayofmonth dayofweek dayofyear days decimal decode degrees delta denserank desc differs distinct div divide \
    double e elementid else elt empty encode endnode endofday endofmonth endofweek endofyear endswith enddate exclude except \
    exists exp explain explode extract fetch field filter findinset first firstvalue flatten float floor forall format from \
    fromunixtime getdate greatest group groupconcat grouping having head height histogramquantile hour idelta iff if ifnull ilike in \
    increase indexof initcap inner input instr int integer intersect interval irate irregular isnull join keys label \
    labelreplace labels lag lang last lastindexof lastday lastvalue lateral lcase lead least left len length limit listagg \
    ln localtime localtimestamp locate log log10 log2 lower lpad ltrim matches match max maxby md5 mean median membersof metrics mid \
    min minby minute mod mode modulo monotonicallyincreasingid month monthname name nchar newid nodes none not notnull now nthvalue \
    ntile nullif number numeric nvarchar nvl nvl2 octetlength of offset on only or order ordinal over overlay overlaps \
    partition percentilecont percentiledisc percentrank pi point pow power predicate predictlinear presentovertime properties quantile quarter quote quoteident \
    quoteliteral quotename quotenullable radians rand random range rank rate real reduce relationships repeat replace resets \
    reverse right rlike rollup round row rownumber rowstojson rowtojson rpad rtrim sameterm sample scalar search second \
    select sessionuser set sets sha1 sha256 shortestpath allshortestpaths sign similar sin single size sizeof smallint some sort sortby soundex \
    sourcenode space split splitpart sqrt startnode startofday startofmonth startofweek startofyear startswith stddev \
    stddevpop stddevsamp stdev str strafter strbefore strdt strends string stringagg strlang strlen strpos strstarts \
    struct stuff subset substr substring substringindex sum sumif summarize sysdate systimestamp table tablesample tail topk tan text then \
    time timediff times timestamp timestampadd timestampdiff timezone tinyint tochararray toint top translate trim trunc \
    truncate try trycast trunctime type typeof ucase uniq unicode union unixtimestamp unnest upper uri uuid user using \
    utcnow value values varbinary varchar varpop varsamp variance version vector week weekday weekofyear when where width widthbucket \
    with within xor year years zip";
/// Families: what follows the first word of such a name says what is computed, as in `json_extract`, `toStartOfDay`, `countIf`.
const FAMILIES: &str = "approx arg array attribute avg begins bit bool changes char col collect corr count countif covar current date datetime dense deriv ends extract \
    first format from generate geo group hash has histogram hll inet is iso json jsonb label last least list ltrim make map \
    max measure median min months next number obj parse percentile quantile range regex regexp regr round row safe sha sort st starts \
    std stddev str string sum time timestamp to topk try tuple uniq unix url utc uuid var week xml year";
/// What reads files or the catalogue of a database, and looks.
const CATALOGUE: &str = "format_type obj_description col_description current_setting inet_server_addr last_insert_id pg_backend_pid \
    pg_cancel_requested pg_column_size pg_conf_load_time pg_database_size pg_encoding_to_char pg_function_is_visible pg_get_constraintdef \
    pg_get_expr pg_get_function_arguments pg_get_functiondef pg_get_indexdef pg_get_keywords pg_get_partkeydef \
    pg_get_ruledef pg_get_serial_sequence pg_get_triggerdef pg_get_userbyid pg_get_viewdef pg_indexes_size \
    pg_is_in_recovery pg_postmaster_start_time pg_relation_size pg_size_bytes pg_size_pretty pg_table_is_visible \
    pg_table_size pg_tablespace_size pg_total_relation_size pg_type_is_visible pg_typeof query_start read_csv read_csv_auto \
    read_json read_json_auto read_parquet shobj_description row_security_active txid_current_snapshot found_rows row_count";
/// Steps of a query in the shell of a database (`db.users.find()`, `g.V().has()`).
const STEPS: &str = "aggregate allowdiskuse and as both botheh bothe bothv by cap choose coalesce collation constant count countdocuments \
    datasize date dedup distinct e elementmap emit eq estimateddocumentcount explain find findone fold from getcollection \
    getcollectioninfos getcollectionnames getindexes getmongo getname getsiblingdb group groupcount gt gte has hashid \
    haslabel hasnext hasnot hint hostinfo id in ine inv is isodate itcount label limit lt lte match math max maxtimems mean \
    min neq next not numberdecimal numberint numberlong objectid or order oute out outv path pretty project properties range \
    readpref regexp repeat select serverstatus simplepath size skip sort stats storagesize sum tail times toarray tolist \
    totalsize unfold until uuid v valuemap values version where within without hasid";

/// What a `pragma` shows, asked without an argument, and with one.
const PRAGMAS: &str = "application_id auto_vacuum automatic_index busy_timeout cache_size cache_spill collation_list compile_options data_version \
    database_list database_size defer_foreign_keys encoding foreign_keys freelist_count function_list journal_mode \
    journal_size_limit max_page_count mmap_size module_list page_count page_size platform pragma_list query_only \
    recursive_triggers schema_version secure_delete show_tables synchronous table_list temp_store threads user_version version \
    wal_autocheckpoint foreign_key_check integrity_check quick_check";
const PRAGMAS_OF: &str = "foreign_key_check foreign_key_list index_info index_list index_xinfo integrity_check quick_check storage_info \
    table_info table_list table_xinfo";

/// Whether a pragma is known to show something, without an argument or with one.
pub(super) fn is_pragma(name: &str, given: bool) -> bool {
    let small = name.to_ascii_lowercase();
    among(PRAGMAS_OF, &small) || !given && among(PRAGMAS, &small)
}

/// Whether a function is known to change nothing.
pub(super) fn is_known(name: &str) -> bool {
    let small = name.to_ascii_lowercase();
    let pragma = |name: &str| is_pragma(name, false);
    if among(CATALOGUE, &small) || small.strip_prefix("pragma_").is_some_and(pragma) {
        return true;
    }
    let words = super::name::words(name);
    among(KNOWN, &small.replace('_', ""))
        || words.len() > 1 && words.first().is_some_and(|first| among(FAMILIES, first)) && !acts(&words)
}

/// Whether a step of a query in a database's shell is known to change nothing.
pub(super) fn is_step(name: &str) -> bool {
    among(STEPS, &name.to_ascii_lowercase())
}

/// Whether the words after a family's say more than what is computed: `json_export`, `array_append` does not.
fn acts(words: &[String]) -> bool {
    let value = ["append", "insert", "set", "remove", "replace", "fill", "merge", "concat"];
    words.iter().skip(1).any(|word| {
        !value.contains(&word.as_str())
            && super::lexicon::verb(word)
                .is_some_and(|verb| !verb.noun && verb.act.effect() > umbra_domain::Effect::Read)
    })
}

fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}
