//! Numbers of rows in a list: drawn last in a transaction, so that they become visible in order.

/// The statement that gives numbers to the rows of a table that have none, from the feed of that name. Nobody else draws from
/// the feed until the end of the transaction, of which it is the last statement.
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
