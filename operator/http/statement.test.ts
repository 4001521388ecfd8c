import { describe, expect, test } from 'vitest';
import type { Ledger } from '../ledger/ledger.ts';
import { openTestStream, usePostgres } from '../ledger/testing/postgres-ledger.ts';
import { seededRandom } from '../ledger/testing/seeded-random.ts';
import { createStepClock } from '../ledger/testing/step-clock.ts';
import { useLedgers } from '../ledger/testing/use-ledgers.ts';
import { newKey } from './portal/testing/keys.ts';
import {
  downloadStatement,
  fillMonth,
  KEY,
  MONTH,
  signAgain,
  statementKeys,
  statementServer,
  verifyStatements,
} from './testing/statements.ts';
import { SIGNED, tamper } from './testing/tamperings.ts';
import { API_TOKEN as token } from './testing/test-server.ts';

const ledgers = useLedgers();
const postgres = usePostgres();
const FEW_EVENTS = { events: 90, bytes: Number.MAX_SAFE_INTEGER };
const DAY = 86_400_000;

async function rightFor(ledger: Ledger, usageDirectory?: string): Promise<void> {
  await using server = await statementServer(ledger, KEY, usageDirectory);
  const { sequence, chain } = ledger.stats();
  for (const tenant of ['acme', 'burst', 'Zoo']) {
    const text = await downloadStatement(server, tenant);
    const keys = await statementKeys(server);
    const [checked] = await verifyStatements([text], keys, [`${sequence}:${chain}`]);
    expect(checked?.output).toContain(`OK: ${tenant}, ${MONTH}`);
    const path = `/api/v1/costs?tenant=${tenant}&from=${MONTH}-01&to=2026-12-01`;
    const { amounts } = (await server.call('GET', path, { token })).json as {
      readonly amounts: readonly { readonly currency: string; readonly cost: number }[];
    };
    expect(amounts.length).toBe(tenant === 'acme' ? 2 : 1);
    for (const { currency, cost } of amounts) {
      const digits = currency === 'JPY' ? 0 : 2;
      expect(checked?.output).toContain(`amount: ${cost.toFixed(digits)} ${currency}\n`);
    }
    expect(text).not.toContain('secret');
  }
}

describe('a statement', () => {
  test('is right by a program that does not trust it, and has the amounts of /costs', async () => {
    const ledger = await ledgers.open(await ledgers.directory(), {
      segmentLimits: FEW_EVENTS,
    });
    await fillMonth(ledger, 20, 1);
    await rightFor(ledger, await ledgers.directory());
  });

  test('comes out of PostgreSQL the same way', async () => {
    const database = await postgres.server().createDatabase();
    const stream = { source: 'prod', region: 'eu-central-1' };
    const ledger = await openTestStream(database, stream);
    await fillMonth(ledger, 20, 1);
    await rightFor(ledger);
    await ledger.close();
  });

  test('of a month of which events were deleted is refused, not short', async () => {
    const clock = createStepClock(Date.UTC(2026, 9, 31, 23));
    const ledger = await ledgers.open(await ledgers.directory(), {
      clock,
      retentionMs: DAY,
      segmentLimits: FEW_EVENTS,
    });
    await fillMonth(ledger, 25, 5);
    await using server = await statementServer(ledger);
    expect(await downloadStatement(server)).toContain('"signature"');
    clock.pass(60 * DAY);
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBeGreaterThan(0);
    const path = `/api/v1/tenants/acme/statement?month=${MONTH}`;
    const { status, text } = await server.call('GET', path, { token });
    expect(status).toBe(409);
    expect(text).toContain('set RETENTION');
  });

  test('that somebody tampered with is found to be wrong, also when its provider did', async () => {
    const ledger = await ledgers.open(await ledgers.directory());
    await fillMonth(ledger, 25, 2);
    await using server = await statementServer(ledger);
    const lines = (await downloadStatement(server, 'acme')).trimEnd().split('\n');
    const foreign = (await downloadStatement(server, 'burst')).trimEnd().split('\n');
    const forgery = { lines, foreign, random: seededRandom(7) };
    const tampered = [...SIGNED].map(([name, change]) => {
      const changed = change(forgery) ?? lines;
      return [
        name,
        changed.join() === lines.join() ? signAgain(lines) : signAgain(changed),
      ] as const;
    });
    tampered.push(...Array.from({ length: 20 }, () => tamper(forgery)));
    const texts = [signAgain(lines), ...tampered.map(([, text]) => text)];
    const [untouched, ...checked] = await verifyStatements(texts, await statementKeys(server));
    // Signing again is no tampering by itself.
    expect(untouched?.output).toContain('OK: ');
    const found = tampered.map(([name], index) => {
      const { code, output = '' } = checked[index] ?? {};
      // What was signed again is found by its content, not by a fault of this test's signing.
      const bySignature = index < SIGNED.size && /what was signed|of this key/.test(output);
      const isFound = code === 1 && output.startsWith('WRONG: ') && !bySignature;
      return `${name}: ${isFound ? 'found' : output}`;
    });
    expect(found).toStrictEqual(tampered.map(([name]) => `${name}: found`));
  });

  test('does not match the anchor of a ledger that was rewritten', async () => {
    const ledger = await ledgers.open(await ledgers.directory());
    await fillMonth(ledger, 5, 3);
    await using server = await statementServer(ledger);
    const text = await downloadStatement(server);
    const anchor = `${ledger.head()}:${'0'.repeat(64)}`;
    const [checked] = await verifyStatements([text], await statementKeys(server), [anchor]);
    expect(checked?.output).toMatch(/^WRONG: the chain at event \d+ is/);
  });

  test('is refused where there is no key that a short program can check', async () => {
    const ledger = await ledgers.open(await ledgers.directory());
    await using server = await statementServer(ledger, newKey('p256'));
    const path = `/api/v1/tenants/acme/statement?month=${MONTH}`;
    const { status, text } = await server.call('GET', path, { token });
    expect(status).toBe(404);
    expect(text).toContain('PORTAL_KEYS_FILE');
    expect(JSON.parse(await statementKeys(server))).toStrictEqual({ keys: [] });
  });

  test('is signed by the first Ed25519 key, and the keys show no private part', async () => {
    const ledger = await ledgers.open(await ledgers.directory());
    await fillMonth(ledger, 5, 4);
    await using server = await statementServer(ledger, `${newKey('p256')}${KEY}${newKey()}`);
    const keys = await statementKeys(server);
    expect((JSON.parse(keys) as { readonly keys: readonly object[] }).keys.length).toBe(2);
    expect(keys).not.toContain('"d"');
    const [checked] = await verifyStatements([await downloadStatement(server)], keys);
    expect(checked?.code).toBe(0);
  });
});
