//! Feed numbers of rows in lists, drawn last in a transaction, so that rows become visible in order of their numbers.

/// Builds the statement that numbers the unnumbered rows of a table from the feed of that name. Must be the last
/// statement of its transaction, since it locks the feed until the end.
macro_rules! number_rows {
    ($statement:literal, $table:literal, $feed:literal) => {
        concat!(
            "/* ",
            $statement,
            " */ WITH n AS (
                 SELECT id, row_number() OVER (ORDER BY id) AS nth, count(*) OVER () AS many
                 FROM ",
            $table,
            " WHERE seq IS NULL
             ), f AS (
                 UPDATE feed SET last = last + (SELECT count(*) FROM n)
                 WHERE name = '",
            $feed,
            "' AND EXISTS (SELECT FROM n) RETURNING last
             )
             UPDATE ",
            $table,
            " t SET seq = f.last - n.many + n.nth FROM n, f WHERE t.id = n.id AND t.seq IS NULL"
        )
    };
}

pub(super) use number_rows;
