import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../telemetry/system-clock.ts';
import { ledgerConformance } from '../testing/conformance.ts';
import { anchorPromises } from '../testing/conformance/anchors.ts';
import { restartPromises } from '../testing/conformance/restart.ts';
import { testEvent } from '../testing/events.ts';
import { silentLogger } from '../testing/level-ledger.ts';
import { type PgBouncer, startPgBouncer } from '../testing/pgbouncer.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { createFleetDatabase } from './fleet-database.ts';
import { HubLease } from './hub-lease.ts';

const used = usePostgres();
let bouncer: PgBouncer;
let streams = 0;

beforeAll(async () => {
  bouncer = await startPgBouncer(await used.server().createDatabase());
});
afterAll(() => bouncer?.stop());

function nextStream(): { readonly source: string; readonly region: string } {
  streams += 1;
  return { source: `cluster-${streams}`, region: `region-${streams}` };
}

async function place() {
  const stream = nextStream();
  return () => openTestStream(bouncer.database, stream);
}

ledgerConformance('the PostgreSQL ledger behind PgBouncer in transaction mode', () =>
  openTestStream(bouncer.database, nextStream()),
);
restartPromises(place);
anchorPromises(place);

test('a hub behind PgBouncer leads, reads and writes its cursors', async () => {
  const stream = nextStream();
  const { database } = bouncer;
  const operator = await openTestStream(database, stream);
  await operator.append({ events: [testEvent()] });
  const options = { database, clock: systemClock, logger: silentLogger };
  const fleet = createFleetDatabase({ ...options, durability: 'storage', retentionMs: 1 });
  const lease = new HubLease({ ...options, owner: 'hub-1' });
  const done = new AbortController();
  await lease.run(done.signal, async (epoch) => {
    const opened = await fleet.open(stream, epoch);
    if (opened.kind === 'failed') throw new Error(opened.message);
    expect(await opened.ledger.commitCursor('lago', 1)).toEqual({ kind: 'written' });
    await opened.ledger.close();
    done.abort();
  });
  await operator.close();
});
