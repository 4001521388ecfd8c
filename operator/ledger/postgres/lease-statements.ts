import type { Lease, LeaseRow } from '../leases.ts';
import type { Row, Session, Statement } from './session.ts';
import { touchIdleWriter } from './writers.ts';

/**
 * No standby is waited for: a lease that a failover takes back is one that its holder can no longer write with, and
 * what it wrote before is behind its claim in the server's log.
 */
const BEGIN = `begin; set local synchronous_commit = local; set local lock_timeout = 1000;
  set local idle_in_transaction_session_timeout = 5000`;

/** Runs statements as one transaction. Gives the rows of the last one; throws unless they are committed. */
export async function writeLeases(
  session: Session,
  statements: readonly Statement[],
): Promise<readonly Row[]> {
  const results = await session.run([{ text: BEGIN }, ...statements, { text: 'commit' }]);
  const command = results.at(-1)?.command;
  if (command !== 'COMMIT') throw new Error(`leases: not stored: "${command}"`);
  return results.at(-2)?.rows ?? [];
}

export function selectLeases(stream: number): Statement {
  return {
    text: 'select name, owner, address, epoch, renewals from meterfeed.lease where stream = $1',
    values: [stream],
  };
}

/** The lease in a row of {@link selectLeases}. */
export function leaseRowOf(row: Row): LeaseRow {
  return {
    name: row['name'] ?? '',
    owner: row['owner'] ?? '',
    address: row['address'] ?? '',
    epoch: Number(row['epoch']),
    renewals: Number(row['renewals']),
  };
}

/** Leases that nobody holds. */
export function makeLeases(stream: number, names: readonly string[]): Statement {
  return {
    text: `insert into meterfeed.lease (stream, name, owner, address, epoch, renewals)
      select $1, name, '', '', 0, 0 from unnest($2::text[]) as name
      on conflict (stream, name) do nothing`,
    values: [stream, names],
  };
}

/** Claims leases that stand as they were seen. One in which a write is under way stays its holder's. */
export function claimLeases(
  stream: number,
  owner: string,
  address: string,
  seen: readonly LeaseRow[],
): Statement {
  return {
    text: `with free as (
        select l.name from meterfeed.lease l
          join unnest($4::text[], $5::bigint[], $6::bigint[]) as seen (name, epoch, renewals)
            on l.name = seen.name and l.epoch = seen.epoch and l.renewals = seen.renewals
          where l.stream = $1 order by l.name for update of l skip locked
      )
      update meterfeed.lease l set owner = $2, address = $3, epoch = l.epoch + 1,
          renewals = l.renewals + 1
        from free where l.stream = $1 and l.name = free.name
        returning l.name, l.epoch`,
    values: [
      stream,
      owner,
      address,
      seen.map(({ name }) => name),
      seen.map(({ epoch }) => epoch),
      seen.map(({ renewals }) => renewals),
    ],
  };
}

/** Renews all that a process holds, and says by the row `self` that it is there. Locks in the order in which writing transactions do. */
export function renewLeases(
  stream: number,
  owner: string,
  self: string,
  address: string,
): readonly Statement[] {
  return [
    touchIdleWriter(stream, owner),
    {
      text: `insert into meterfeed.lease (stream, name, owner, address, epoch, renewals)
        values ($1, $2, $3, $4, 1, 0) on conflict (stream, name) do nothing`,
      values: [stream, self, owner, address],
    },
    {
      text: `with own as (
          select name from meterfeed.lease where stream = $1 and owner = $2 order by name for update
        )
        update meterfeed.lease l set renewals = l.renewals + 1
          from own where l.stream = $1 and l.name = own.name
          returning l.name, l.epoch`,
      values: [stream, owner],
    },
  ];
}

/** Gives a lease back, unless somebody else has it. */
export function releaseLease(stream: number, owner: string, { name, epoch }: Lease): Statement {
  return {
    text: `update meterfeed.lease set owner = '', address = ''
      where stream = $1 and owner = $2 and name = $3 and epoch = $4`,
    values: [stream, owner, name, epoch],
  };
}

/** Takes a process's own row away. */
export function dropLease(stream: number, name: string, owner: string): Statement {
  return {
    text: 'delete from meterfeed.lease where stream = $1 and name = $2 and owner = $3',
    values: [stream, name, owner],
  };
}

/** Takes rows away that still stand as they were seen. */
export function forgetLeases(stream: number, seen: readonly LeaseRow[]): Statement {
  return {
    text: `delete from meterfeed.lease l
      using unnest($2::text[], $3::bigint[]) as seen (name, renewals)
      where l.stream = $1 and l.name = seen.name and l.renewals = seen.renewals`,
    values: [stream, seen.map(({ name }) => name), seen.map(({ renewals }) => renewals)],
  };
}
