//! Statements that are parsed and planned once a connection.
//!
//! `diesel::sql_query` is sent as text every time, since diesel cannot know what it holds; parsing and planning it costs more than
//! running it. A [`Statement`] has constant text, so it is prepared at its first use and only bound afterwards.

use diesel::{
    PgConnection, QueryResult,
    pg::Pg,
    query_builder::{AstPass, Query, QueryFragment, QueryId},
};

/// A statement with constant text and typed values.
pub(crate) trait Statement: 'static {
    /// The text, with `$1` to `$9` where values go.
    const SQL: &'static str;

    /// The SQL types of its columns, so that rows are read by place and not by name; [`Untyped`](diesel::sql_types::Untyped) if it has none.
    type Row;

    /// Pushes the value of `$place`. A place that the text names twice is asked for twice.
    ///
    /// # Errors
    /// Those of [`AstPass::push_bind_param`].
    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()>;
}

/// A [`Statement`] as diesel runs it.
pub(crate) struct Prepared<S>(pub(crate) S);

impl<S: Statement> QueryFragment<Pg> for Prepared<S> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let mut pieces = S::SQL.split('$');
        out.push_sql(pieces.next().unwrap_or_default());
        for piece in pieces {
            let digits = piece.find(|character: char| !character.is_ascii_digit()).unwrap_or(piece.len());
            let (place, rest) = piece.split_at(digits);
            self.0.bind(place.parse().unwrap_or(0), &mut out)?;
            out.push_sql(rest);
        }
        Ok(())
    }
}

impl<S: Statement> QueryId for Prepared<S> {
    type QueryId = Self;
    const HAS_STATIC_QUERY_ID: bool = true;
}

impl<S: Statement> Query for Prepared<S> {
    type SqlType = S::Row;
}

impl<S> diesel::RunQueryDsl<PgConnection> for Prepared<S> {}
