/** Streams that are being filled from another ledger (docs/ledger-format.md#moving-to-postgresql). */
export const SQL = `
alter table meterfeed.stream add column copying boolean not null default false;
`;
