import pLimit from 'p-limit';
import type { LedgerDatabase } from '../../config/settings.ts';
import type { Customer, Customers, CustomerWork } from '../fleet.ts';
import { openSession, type Session, type Statement } from './session.ts';
import { beginText, commit } from './transaction.ts';

/** A billing system may take so long to find or make a customer. */
const LOCK_TIMEOUT_MS = 120_000;
const ANSWER_MS = LOCK_TIMEOUT_MS + 30_000;
/** Customers that one process works on at a time, each with a connection: two feeders' worth of what they ask for. */
const CONCURRENCY = 16;

/**
 * Customers as rows of a database. The row is locked while a customer is worked on: who comes to the same one waits, also
 * where there was no row before.
 */
export function createPostgresCustomers(database: LedgerDatabase): Customers {
  const limit = pLimit(CONCURRENCY);
  /** For those that wait: where a cluster comes with all of its tenants, most of the work would be connecting. */
  let free: Session[] = [];
  return {
    alone: (destination, tenant, work) =>
      limit(async () => {
        const session = free.pop() ?? (await openSession(database, ANSWER_MS));
        try {
          const result = await inTransaction(session, [destination, tenant], work);
          free.push(session);
          return result;
        } catch (error) {
          // Ends the transaction as well.
          await session.end();
          throw error;
        } finally {
          if (limit.pendingCount === 0) {
            const unused = free;
            free = [];
            await Promise.all(unused.map((one) => one.end()));
          }
        }
      }),
  };
}

type Key = readonly [destination: string, tenant: string];

async function inTransaction<T>(
  session: Session,
  key: Key,
  work: (known: Customer | undefined) => Promise<CustomerWork<T>>,
): Promise<T> {
  const [, , found] = await session.run([
    { text: beginText(LOCK_TIMEOUT_MS) },
    {
      text: `insert into meterfeed.customer (destination, tenant, value) values ($1, $2, '')
        on conflict (destination, tenant) do nothing`,
      values: key,
    },
    {
      text: 'select value from meterfeed.customer where destination = $1 and tenant = $2 for update',
      values: key,
    },
  ]);
  const before = found?.rows[0]?.['value'] ?? '';
  const { result, record } = await work(before === '' ? undefined : customerOf(before));
  const next = record === 'as before' ? before : record === 'none' ? '' : JSON.stringify(record);
  await session.run([write(key, next)]);
  await commit(session);
  return result;
}

function write(key: Key, value: string): Statement {
  return value === ''
    ? {
        text: 'delete from meterfeed.customer where destination = $1 and tenant = $2',
        values: key,
        rows: 1,
      }
    : {
        text: 'update meterfeed.customer set value = $3 where destination = $1 and tenant = $2',
        values: [...key, value],
        rows: 1,
      };
}

/** Only this module writes it. */
function customerOf(text: string): Customer {
  return JSON.parse(text) as Customer;
}
