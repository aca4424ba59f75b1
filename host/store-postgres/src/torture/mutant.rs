//! Defects of a host, as its store and its clients see them. The suite must find each one.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Requests do not wait for a barrier.
    NoBarrier,
    /// A barrier in progress serves requests that come meanwhile.
    EarlyBarrier,
    /// Writes that must be durable are committed asynchronously.
    AsynchronousRoots,
    /// A swap is sent before the values of its request.
    SwapBeforeValues,
    /// Cached values stay valid after the connections were lost.
    MemoryKept,
    /// Plain values leave no row of changes.
    ChangesForgotten,
}

impl Mutant {
    pub const ALL: [Self; 6] = [
        Self::NoBarrier,
        Self::EarlyBarrier,
        Self::AsynchronousRoots,
        Self::SwapBeforeValues,
        Self::MemoryKept,
        Self::ChangesForgotten,
    ];

    /// The statements that give the database the defect.
    pub fn sql(self) -> &'static str {
        match self {
            // The sessions of the hosts call this function, and no session commits synchronously.
            Self::AsynchronousRoots => {
                "create function public.set_config(text, text, boolean) returns text language sql as '
                     select pg_catalog.set_config($1, case $1 when ''synchronous_commit'' then ''off'' else $2 end,
                                                  $3)';
                 alter database torture set search_path = public, pg_catalog;"
            }
            Self::ChangesForgotten => {
                "create function forget() returns trigger language plpgsql as '
                     begin if new.keys[1] like ''value/%'' then return null; end if; return new; end';
                 create trigger forget before insert on hexad.change for each row execute function forget();"
            }
            _ => "",
        }
    }
}
