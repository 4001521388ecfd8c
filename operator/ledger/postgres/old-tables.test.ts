import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { beforeEach, describe, expect, test } from 'vitest';
import type { LedgerDatabase } from '../../settings/settings.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { Ledger } from '../ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent } from '../testing/events.ts';
import { silentLogger } from '../testing/level-ledger.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { postgresOptions } from '../testing/postgres-options.ts';
import { addOldStream, restoreVersion6, VERSION_6_EVENTS } from '../testing/postgres-version-6.ts';
import { dumpEvents } from '../tool/events.ts';
import { createFleetDatabase } from './fleet-database.ts';
import { HubLease } from './hub-lease.ts';
import { inspectStream } from './inspect-stream.ts';
import { openPostgresLedger } from './open-postgres-ledger.ts';

const used = usePostgres();
const BERLIN = { source: 'berlin', region: 'eu-1' } as const;
const ROME = { source: 'rome', region: 'it' } as const;
const TENANTS = 20;
/** A million events with LEDGER_COPIED_WINDOWS=50000. */
const WINDOWS = Number(process.env['LEDGER_COPIED_WINDOWS'] ?? 1_000);
const KILLS = 6;
const COPY_MS = 240_000 * Math.max(1, WINDOWS / 2_000);

let database: LedgerDatabase;
const query = (text: string) => used.server().query(text, database.name);

beforeEach(async () => {
  database = await used.server().createDatabase();
  await restoreVersion6(database);
});

async function lines(source: string): Promise<readonly string[]> {
  const inspected = await inspectStream(database, source);
  try {
    const dump = await Array.fromAsync(dumpEvents(inspected.view, {}));
    return dump.map((line) => line.replace(/^\{"sequence":(\d+),"event":(.*)\}$/, '$1 $2'));
  } finally {
    await inspected.close();
  }
}

async function openInProcess(killAfter?: number): Promise<string | undefined> {
  const script = join(import.meta.dirname, '..', 'testing', 'open-stream-process.ts');
  const place = [String(database.port), database.name, ROME.source, ROME.region];
  const child = spawn(process.execPath, [script, ...place], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  let steps = 0;
  let last: string | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    steps += 1;
    last = line;
    if (steps === killAfter) child.kill('SIGKILL');
  }
  await ended;
  return last;
}

describe('a stream in the tables of the release before', () => {
  test('has the same texts, numbers, chain, records, cursors and holes in its schema, and goes on', async () => {
    const ledger = await openTestStream(database, BERLIN);
    expect(await lines('berlin')).toEqual(VERSION_6_EVENTS);
    const [old] = await query(
      `select ledger_id, chain, head from meterfeed.stream where source = 'berlin'`,
    );
    expect(ledger.stats()).toMatchObject({
      ledgerId: old?.['ledger_id'],
      chain: old?.['chain'],
      sequence: 19,
      lastWindowEnd: TEST_WINDOW_START + 6 * TEST_WINDOW_MS,
      problems: ['ledger: events 15 to 16: missing'],
    });
    expect(ledger.cursors()).toMatchObject([
      { destination: 'lago', sequence: 5, windowEnd: testEvent().window_end },
      { destination: 'old', sequence: 2, retiredAt: TEST_WINDOW_START },
    ]);
    expect(await ledger.record('journal/state')).toBe('é');
    const again = { ...testEvent({ tenant: 'acme' }), properties: { basis: 'usage' } };
    const repeats = [again, testEvent({ id: 'theirs-1', tenant: 'acme', quantity: '2' })];
    expect(
      await ledger.append({ events: [...repeats, testEvent({ tenant: 'new' })] }),
    ).toMatchObject({
      outcomes: ['duplicate', 'duplicate', 'accepted'],
      head: 20,
    });
    expect((await ledger.verify()).errors).toEqual(['ledger: events 15 to 16: missing']);
    // An anchor of the earlier release is one of this ledger.
    const anchor = {
      ledgerId: ledger.stats().ledgerId,
      sequence: 19,
      chain: String(old?.['chain']),
    };
    expect(await ledger.compareWith(anchor)).toEqual({ kind: 'written' });
    expect(ledger.stats().problems).toHaveLength(1);
    await ledger.close();
  });

  test('is closed to the release before, and the streams of others are not', async () => {
    await (await openTestStream(database, BERLIN)).close();
    expect(
      await query('select source, copying, owner from meterfeed.stream order by source'),
    ).toMatchObject([
      { source: 'berlin', copying: true, owner: 'moved to meterfeed_berlin' },
      { source: 'paris', copying: false },
    ]);
    const paris = await openTestStream(database, { source: 'paris', region: 'eu-2' });
    expect(paris.head()).toBe(2);
    await paris.close();
  });

  test('is copied once: what is written since stays', async () => {
    const first = await openTestStream(database, BERLIN);
    await first.append({ events: [testEvent({ id: 'new' })] });
    await first.close();
    const second = await openTestStream(database, BERLIN);
    expect(second.head()).toBe(20);
    await second.close();
  });

  test('gives its hub the cursors, delivery records and customers that it had', async () => {
    await (await openTestStream(database, BERLIN)).close();
    const options = { database, clock: systemClock, logger: silentLogger };
    const lease = new HubLease({ ...options, owner: 'hub-1' });
    const fleet = createFleetDatabase({ ...options, durability: 'storage', retentionMs: 1 });
    const done = new AbortController();
    await lease.run(done.signal, async (epoch) => {
      const opened = await fleet.open(BERLIN, epoch);
      if (opened.kind === 'failed') throw new Error(opened.message);
      const { ledger } = opened;
      expect(ledger.cursors()).toMatchObject([
        { destination: 'lago', sequence: 5 },
        { destination: 'old', sequence: 2, retiredAt: TEST_WINDOW_START },
      ]);
      expect(await ledger.record('delivery/lago/state')).toBe('{}');
      expect(await ledger.commitCursor('lago', 6, { from: 5 })).toEqual({ kind: 'written' });
      expect([...(await fleet.customers(epoch).read('lago')).keys()]).toEqual(['acme']);
      await ledger.close();
      done.abort();
    });
  });

  test.each([
    ['of another version', 'delete from meterfeed.version where version = 6', 'version 5'],
    [
      'that is a copy and not complete',
      `update meterfeed.stream set copying = true`,
      'not complete',
    ],
    [
      'with a damaged event',
      'update meterfeed.event set quantity = 9 where seq = 3',
      'event 3 is damaged',
    ],
    [
      'without an event',
      `delete from meterfeed.event where seq = 3`,
      'the batch at 8 is not complete',
    ],
  ])('%s is refused, and no window is closed behind a hole', async (_, change, why) => {
    await query(change);
    expect(await openPostgresLedger(postgresOptions(database, BERLIN))).toMatchObject({
      kind: 'failed',
      message: expect.stringContaining(why),
    });
  });

  test(
    `is equal although the process that copies it was killed ${KILLS} times`,
    async () => {
      const before = await addOldStream(database, WINDOWS, TENANTS);
      for (let kill = 0; kill < KILLS; kill++) {
        expect(await openInProcess(1 + ((kill * 5) % 8))).not.toBe('opened');
      }
      expect(await openInProcess()).toBe('opened');
      expect(await lines('rome')).toEqual(before);
      const ledger: Ledger = await openTestStream(database, ROME);
      expect(ledger.head()).toBe(WINDOWS * TENANTS);
      expect((await ledger.verify()).errors).toEqual([]);
      await ledger.close();
    },
    COPY_MS,
  );
});
