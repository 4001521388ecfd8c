import type { Customer, CustomerRecords } from '../fleet.ts';
import { LedgerReadError } from '../ledger.ts';
import type { FencedWriter } from './fenced-writer.ts';
import { HUB_SCHEMA } from './schema-name.ts';
import type { DatabaseRow, Statement } from './session.ts';

/** Stores customers as rows of the hub; only the leader reads and writes them. */
export function createCustomers(writer: () => Promise<FencedWriter>): CustomerRecords {
  const run = async (statement: Statement, changes: boolean): Promise<readonly DatabaseRow[]> => {
    const entered = await writer();
    const outcome = await entered.write<readonly DatabaseRow[]>({
      run: async (session) => {
        const { lastBatch } = entered.next();
        const [found] = await session.run([
          statement,
          { text: `update ${HUB_SCHEMA}.writer set last_batch = $1`, values: [lastBatch] },
        ]);
        return { result: found?.rows ?? [], stored: changes ? () => undefined : undefined };
      },
    });
    if (outcome.kind === 'failed') throw new LedgerReadError(outcome);
    return outcome.result;
  };
  return {
    read: async (destination) => {
      const text = `select tenant, value from ${HUB_SCHEMA}.customer where destination = $1`;
      const rows = await run({ text, values: [destination] }, false);
      // Only this module writes the table.
      return new Map(
        rows.map(({ tenant, value }) => [tenant ?? '', JSON.parse(value ?? '') as Customer]),
      );
    },
    write: async (destination, tenant, customer) => {
      const key = [destination, tenant];
      const table = `${HUB_SCHEMA}.customer`;
      await run(
        customer === undefined
          ? {
              text: `delete from ${table} where destination = $1 and tenant = $2`,
              values: key,
            }
          : {
              text: `insert into ${table} (destination, tenant, value) values ($1, $2, $3)
                on conflict (destination, tenant) do update set value = excluded.value`,
              values: [...key, JSON.stringify(customer)],
            },
        true,
      );
    },
  };
}
