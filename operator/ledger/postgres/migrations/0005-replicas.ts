/**
 * Several processes that write one stream (docs/ledger-format.md#several-replicas): what each wrote last, and who holds
 * what only one of them may do at a time.
 */
export const SQL = `
create table meterfeed.writer (
  stream integer not null,
  owner text not null,
  -- The number of its last batch, or of the newest when it came.
  batch bigint not null,
  at timestamptz not null default now(),
  primary key (stream, owner)
) with (fillfactor = 50);

create table meterfeed.lease (
  stream integer not null,
  name text collate "C" not null,
  -- Empty while nobody holds it.
  owner text not null,
  -- Where its holder is reached by the others.
  address text not null,
  -- Grows with every holder.
  epoch bigint not null,
  -- Grows while its holder lives: the others look at nothing else, and no clock is compared.
  renewals bigint not null,
  primary key (stream, name)
) with (fillfactor = 50);
`;
