import pLimit from 'p-limit';
import type { LedgerDatabase } from '../../config/settings.ts';
import type { Customer, CustomerRecords } from '../fleet.ts';
import { LOCK_HUB_LEASE } from './hub-lease.ts';
import { openSession, type Row, type Session, type Statement } from './session.ts';
import { beginText, commit } from './transaction.ts';

const LOCK_TIMEOUT_MS = 5_000;
const ANSWER_MS = 30_000;

/** Customers as rows of a database, read and written by the epoch of the hub that leads. */
export class PostgresCustomers implements CustomerRecords {
  readonly #database: LedgerDatabase;
  readonly #epoch: number;
  readonly #oneAtATime = pLimit(1);
  /** Open while another transaction waits for this one. */
  #session: Session | undefined;

  constructor(database: LedgerDatabase, epoch: number) {
    this.#database = database;
    this.#epoch = epoch;
  }

  readonly read: CustomerRecords['read'] = async (destination) => {
    const rows = await this.#run({
      text: `select tenant, value from meterfeed.customer where destination = $1 and value <> ''`,
      values: [destination],
    });
    // Only this module writes the table.
    return new Map(
      rows.map(({ tenant, value }) => [tenant ?? '', JSON.parse(value ?? '') as Customer]),
    );
  };

  readonly write: CustomerRecords['write'] = async (destination, tenant, customer) => {
    const key = [destination, tenant];
    await this.#run(
      customer === undefined
        ? {
            text: 'delete from meterfeed.customer where destination = $1 and tenant = $2',
            values: key,
          }
        : {
            text: `insert into meterfeed.customer (destination, tenant, value) values ($1, $2, $3)
              on conflict (destination, tenant) do update set value = excluded.value`,
            values: [...key, JSON.stringify(customer)],
          },
    );
  };

  #run(statement: Statement): Promise<readonly Row[]> {
    return this.#oneAtATime(async () => {
      const session = this.#session ?? (await openSession(this.#database, ANSWER_MS));
      this.#session = undefined;
      try {
        const rows = await inTransaction(session, this.#epoch, statement);
        if (this.#oneAtATime.pendingCount > 0) this.#session = session;
        else await session.end();
        return rows;
      } catch (error) {
        session.destroy();
        throw error;
      }
    });
  }
}

async function inTransaction(
  session: Session,
  epoch: number,
  statement: Statement,
): Promise<readonly Row[]> {
  const [, led] = await session.run([
    { text: beginText(LOCK_TIMEOUT_MS) },
    { text: LOCK_HUB_LEASE, values: [] },
  ]);
  const current = led?.rows[0]?.['epoch'];
  if (Number(current) !== epoch) {
    throw new Error(`another process of the hub leads: epoch "${current}" instead of "${epoch}"`);
  }
  const [found] = await session.run([statement]);
  await commit(session);
  return found?.rows ?? [];
}
