import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { damage } from '../ledger/failures.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import { silentLogger } from '../ledger/testing/level-ledger.ts';
import { openTestStream, usePostgres } from '../ledger/testing/postgres-ledger.ts';
import { seededRandom } from '../ledger/testing/seeded-random.ts';
import { createStepClock } from '../ledger/testing/step-clock.ts';
import { useLedgers } from '../ledger/testing/use-ledgers.ts';
import { decodeEvidence } from '../metering/explanations/evidence-record.ts';
import { Explanations } from '../metering/explanations/explanations.ts';
import { closing, podsOf } from '../metering/explanations/testing/closings.ts';
import { override } from '../model/override.ts';
import { systemClock } from '../telemetry/system-clock.ts';
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
    const [checked] = await verifyStatements([text], keys, () => [`${sequence}:${chain}`]);
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

  test('passes beside an anchor that says something else, or that says nothing about it', async () => {
    const ledger = await ledgers.open(await ledgers.directory());
    await fillMonth(ledger, 5, 3);
    await using server = await statementServer(ledger);
    const earlier = await downloadStatement(server, 'burst');
    await ledger.append({ events: [testEvent({ tenant: 'acme' })] });
    const text = await downloadStatement(server);
    const chain = '0'.repeat(64);
    const later = { sequence: ledger.head() + 1, chain };
    const signed = (change: object): string => signAgain(earlier.trimEnd().split('\n'), change);
    const anchors: readonly (readonly [anchor: string, output: RegExp])[] = [
      [earlier, /^OK: [^]*\nanchors: 1 of 1 are within the statement, and agree\n/],
      [earlier + signed({ head: later }), /^OK: [^]*\nanchors: 1 of 2 are within/],
      [signed({ head: { sequence: ledger.head(), chain } }), /^WRONG: the chain at event \d+ is/],
      [signed({ head: { sequence: ledger.head() - 4, chain } }), /^WRONG: no batch of the/],
      [signed({ head: later }), /^WRONG: no anchor is within/],
      [signed({ head: later, at: '2026-11-01T00:00:00Z' }), /^WRONG: the ledger is shorter than/],
      [signed({ ledger_id: 'another' }), /^WRONG: an anchor is of another ledger/],
      [
        earlier.replace(/[\w-]{9}(?="\}\n$)/, 'AAAAAAAAA'),
        /^WRONG: the signature is not of this key/,
      ],
      ['{}', /^WRONG: no anchor in the file/],
    ];
    const directory = await ledgers.directory();
    const keys = await statementKeys(server);
    for (const [index, [anchor]] of anchors.entries()) {
      await writeFile(join(directory, String(index)), anchor);
    }
    const noted = [`${ledger.head()}:${chain}`];
    const checked = await verifyStatements(
      [...anchors, noted].map(() => text),
      keys,
      (index) => (index in anchors ? [join(directory, String(index))] : noted),
    );
    for (const [index, [, output]] of anchors.entries()) {
      expect(checked[index]?.output).toMatch(output);
    }
    expect(checked.at(-1)?.output).toMatch(/^WRONG: the chain at event \d+ is/);
  });

  test('of a ledger that lost its newest events is wrong, or hides the loss', async () => {
    const ledger = await ledgers.open(await ledgers.directory());
    await fillMonth(ledger, 5, 3);
    const { ledgerId, chain, sequence } = ledger.stats();
    await ledger.compareWith({ ledgerId, chain, sequence: sequence + 7 });
    await using server = await statementServer(ledger);
    const before = await downloadStatement(server);
    await ledger.append({ events: [testEvent({ tenant: 'acme' })] });
    const after = await downloadStatement(server);
    const anchor = `${sequence + 7}:${chain}`;
    const keys = await statementKeys(server);
    for (const { output } of await verifyStatements([before, after], keys, () => [anchor])) {
      expect(output).toContain(`note: the ledger has no events ${sequence + 1} to ${sequence + 7}`);
      expect(output).toContain('anchors: 1 of 1');
    }
  });

  test('lacks its evidence or its hash, has that of others, or is refused for a damaged record', async () => {
    const ledger = await ledgers.open(await ledgers.directory());
    await fillMonth(ledger, 5, 6);
    const older = { find: async () => undefined };
    const explanations = new Explanations(ledger, older, systemClock, silentLogger);
    const pods = [...podsOf('acme', 2), ...podsOf('burst', 1)];
    const closed = closing(Date.UTC(2026, 10, 20, 8), pods);
    const records = await explanations.recordsFor(closed);
    await ledger.append({ events: closed.events, records });
    await using server = await statementServer(ledger);
    const keys = await statementKeys(server);
    const complete = await downloadStatement(server, 'acme', '&evidence=true');
    const [found, ...others] = complete.match(/^\{"evidence":.*$/gm) ?? [];
    expect(others).toStrictEqual([]);
    const { record } = JSON.parse(found ?? '') as { readonly record: string };
    const { changes } = decodeEvidence(record);
    const names = changes?.spans.map(([, , , , , name]) => name) ?? [];
    expect(new Set(names)).toStrictEqual(new Set(podsOf('acme', 2).map(({ name }) => name)));

    const brief = await downloadStatement(server);
    expect(brief).not.toContain('{"evidence"');
    const sha256 = createHash('sha256').update(`${found}\n`).digest('hex');
    const changed = (complete.trimEnd().split('\n') as readonly string[]).map((line) =>
      line === found ? line.replace(record, record.replace(/.{9}$/, 'AAAAAAAA=')) : line,
    );
    const [attached, hashed, forged] = await verifyStatements(
      [complete, brief, signAgain(changed)],
      keys,
    );
    expect(attached?.output).toContain(`\nevidence: 1 records in the file, sha256 ${sha256}\n`);
    expect(hashed?.output).toContain(`\nevidence: 0 records in the file, sha256 ${sha256}\n`);
    expect(forged?.output).toBe('WRONG: the evidence is not that of its hash\n');

    const damaged = override<Ledger>(ledger, {
      records: (prefix) => {
        if (prefix.startsWith('evidence/2026-11-20')) throw damage(prefix, 'wrong checksum');
        return ledger.records(prefix);
      },
    });
    await using other = await statementServer(damaged);
    const [checked] = await verifyStatements(
      [await downloadStatement(other, 'acme', '&evidence=true')],
      await statementKeys(other),
    );
    expect(checked?.output).toMatch(/^OK: /);
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
