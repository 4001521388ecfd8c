/** Customers of destinations that several streams share (docs/fleet.md#one-customer). */
export const SQL = `
create table meterfeed.customer (
  destination text collate "C" not null,
  tenant text collate "C" not null,
  -- What was provisioned, and for which streams; empty while it is not on record that it was.
  value text not null,
  primary key (destination, tenant)
);
`;
