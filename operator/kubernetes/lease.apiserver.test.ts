import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import type { Connection, RequestOutcome } from './connection.ts';
import { type LeaseRecord, parseLease, type Succession } from './lease-record.ts';
import { type ElectionEnd, LeaderElection } from './lease.ts';
import { createCapturingLogger } from './testing/capturing-logger.ts';
import { connectWith } from './testing/connect.ts';
import { createManualClock } from './testing/manual-clock.ts';

const cluster = useTestCluster();
/** Chosen so that no deadline coincides with an attempt. */
const RETRY = 1_999;
let connection: Connection;
let namespace: string;
let candidates: Candidate[];

type Fault = 'none' | 'unreachable' | 'answer lost' | 'no answer';

interface Candidate {
  readonly log: readonly string[];
  /** Its log lines about the election. */
  readonly electionLog: readonly string[];
  readonly leading: boolean;
  readonly trusted: boolean;
  readonly ended: Promise<ElectionEnd>;
  /** Advances its clock to its next attempt and waits for the attempt's end. */
  step(times?: number): Promise<void>;
  /** Makes its requests fail in this way from now on. */
  suffer(fault: Fault): void;
  advance(ms: number): Promise<void>;
  stop(): Promise<ElectionEnd>;
  finish(error?: Error): void;
}

beforeAll(() => {
  connection = connectWith(cluster.kubeconfig);
});

afterAll(async () => {
  await connection.close();
});

beforeEach(async () => {
  namespace = await cluster.createNamespace('lease');
  candidates = [];
});

afterEach(async () => {
  for (const candidate of candidates) candidate.finish();
  await Promise.allSettled(candidates.map((candidate) => candidate.stop()));
});

const UNREACHABLE: RequestOutcome = { kind: 'network', message: 'unreachable' };

function unanswered(signal: AbortSignal | undefined): Promise<RequestOutcome> {
  return new Promise((resolve) => {
    signal?.addEventListener('abort', () => resolve(UNREACHABLE), { once: true });
  });
}

function campaign(
  identity: string,
  wallClock = Date.UTC(2026, 0, 1),
  succession?: Succession,
  renew = RETRY,
  renewDeadline = 10_000,
  obstacle?: (isHolder: boolean) => string | undefined,
): Candidate {
  const clock = createManualClock(wallClock);
  const logger = createCapturingLogger();
  const stop = new AbortController();
  const log: string[] = [];
  let fault: Fault = 'none';
  let end = (_error?: Error): void => undefined;
  const election = new LeaderElection({
    connection: {
      request: async (path, options) => {
        if (fault === 'unreachable') return UNREACHABLE;
        if (fault === 'no answer') return await unanswered(options?.signal);
        const outcome = await connection.request(path, options);
        return fault === 'answer lost' ? UNREACHABLE : outcome;
      },
    },
    namespace,
    name: 'meterfeed',
    identity,
    clock,
    random: () => 0,
    logger,
    timings: { retry: RETRY, renew, renewDeadline },
    succession,
    obstacle,
  });
  const ended = election.run(stop.signal, async (signal) => {
    log.push('leads');
    await new Promise<void>((resolve, reject) => {
      end = (error) => (error === undefined ? resolve() : reject(error));
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    log.push('stopped');
  });
  ended.catch(() => undefined);
  const candidate: Candidate = {
    log,
    get electionLog() {
      return logger.lines.filter((line) => line.includes('leader election'));
    },
    get leading() {
      return election.leading;
    },
    get trusted() {
      return election.isTrusted();
    },
    ended,
    step: async (times = 1) => {
      for (let i = 0; i < times; i += 1) {
        await clock.sleeper((ms) => ms === RETRY);
        await clock.advance(RETRY);
      }
      await Promise.race([ended.catch(() => undefined), clock.sleeper((ms) => ms === RETRY)]);
    },
    suffer: (next) => {
      fault = next;
    },
    advance: (ms) => clock.advance(ms),
    stop: () => {
      stop.abort();
      return ended;
    },
    finish: (error) => end(error),
  };
  candidates.push(candidate);
  return candidate;
}

async function lease(): Promise<LeaseRecord | undefined> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/meterfeed`;
  const outcome = await connection.request(path);
  return outcome.kind === 'ok' ? parseLease(outcome.body) : undefined;
}

async function leader(): Promise<string | undefined> {
  return (await lease())?.holder;
}

/** A candidate that leads already. */
async function elected(
  identity: string,
  wallClock?: number,
  succession?: Succession,
): Promise<Candidate> {
  const candidate = campaign(identity, wallClock, succession);
  await candidate.step(0);
  expect(candidate.leading).toBe(true);
  return candidate;
}

test('of several that begin at the same moment exactly one leads', async () => {
  const all = ['a', 'b', 'c', 'd'].map((identity) => campaign(identity));
  await Promise.all(all.map((candidate) => candidate.step(0)));
  expect(all.filter(({ leading }) => leading)).toHaveLength(1);
});

test('a released lease is taken at the next attempt, without waiting for its expiry', async () => {
  const first = await elected('first');
  const second = campaign('second');
  await second.step();
  expect(second.leading).toBe(false);
  expect(await first.stop()).toEqual({ kind: 'released' });
  expect(await leader()).toBe('');
  await second.step();
  expect(second.leading).toBe(true);
  expect(await leader()).toBe('second');
  expect((await lease())?.transitions).toBe(1);
});

test('a renewing leader keeps the lease, however wrong the clocks of the others are', async () => {
  const hour = 3_600_000;
  const leaderClock = Date.UTC(2026, 0, 1);
  const first = await elected('first', leaderClock);
  const early = campaign('ahead', leaderClock + hour);
  const behind = campaign('behind', leaderClock - hour);
  for (let round = 0; round < 12; round += 1) {
    await first.step();
    await Promise.all([early.step(), behind.step()]);
  }
  expect([first.leading, early.leading, behind.leading]).toEqual([true, false, false]);
});

test('a dead leader is succeeded when its lease has been seen unrenewed for its duration, not before', async () => {
  const first = await elected('first');
  const second = campaign('second');
  await second.step(0);
  first.suffer('unreachable');
  await second.step(7);
  expect(second.leading).toBe(false);
  await second.step();
  expect(second.leading).toBe(true);
});

test('an API server that is away for all of them does not take the lease from a leader that goes on without it', async () => {
  const patient = (identity: string) => campaign(identity, undefined, undefined, RETRY, 60_000);
  const first = patient('first');
  await first.step(0);
  const second = patient('second');
  await second.step(0);
  for (const each of [first, second]) each.suffer('unreachable');
  await Promise.all([first.step(9), second.step(9)]);
  for (const each of [first, second]) each.suffer('none');
  await second.step();
  expect(second.leading).toBe(false);
  await first.step();
  await second.step(5);
  expect([first.leading, second.leading]).toEqual([true, false]);
  first.suffer('unreachable');
  await second.step(9);
  expect(second.leading).toBe(true);
});

test('a leader that is cut off stops its work before another may begin', async () => {
  const first = await elected('first');
  await first.step();
  first.suffer('unreachable');
  await first.step(4);
  await first.advance(10_000 - 4 * RETRY - 1);
  expect(first.log).toEqual(['leads']);
  await first.advance(1);
  expect(await first.ended).toMatchObject({
    kind: 'lost',
    reason: expect.stringContaining('not renewed for 10000 ms'),
  });
  expect(first.log).toEqual(['leads', 'stopped']);
  expect(await leader()).toBe('first');
});

test('a leader renews as seldom as it may, says at once how far its ledger goes, and stops no later', async () => {
  let events = 5;
  const succession: Succession = { prefix: 'pod-0_ledger_', head: () => events };
  const first = campaign('pod-0_ledger_a', undefined, succession, 3 * RETRY);
  await first.step(0);
  const acquired = await lease();
  await first.step(2);
  expect(await lease()).toEqual(acquired);
  await first.step();
  const renewed = await lease();
  expect(renewed?.renewTime).not.toBe(acquired?.renewTime);
  events = 6;
  await first.step();
  expect(await lease()).toMatchObject({ holder: 'pod-0_ledger_a', ledgerHead: 6 });
  first.suffer('unreachable');
  await first.step(4);
  await first.advance(10_000 - 4 * RETRY - 1);
  expect(first.log).toEqual(['leads']);
  await first.advance(1);
  expect(await first.ended).toMatchObject({ kind: 'lost' });
});

test('a renewal that hangs does not keep the work going beyond the deadline', async () => {
  const first = await elected('first');
  first.suffer('no answer');
  await first.advance(9_999);
  expect(first.log).toEqual(['leads']);
  await first.advance(1);
  expect(await first.ended).toMatchObject({ kind: 'lost' });
  expect(first.log).toEqual(['leads', 'stopped']);
});

test('a short cut is survived', async () => {
  const first = await elected('first');
  first.suffer('unreachable');
  await first.step(3);
  first.suffer('none');
  await first.step(10);
  expect(first.leading).toBe(true);
});

test('a renewal whose answer was lost is not taken for a loss', async () => {
  const first = await elected('first');
  first.suffer('answer lost');
  await first.step(2);
  first.suffer('none');
  await first.step(10);
  expect(first.leading).toBe(true);
  expect((await lease())?.transitions).toBe(0);
});

test('a lease that somebody has taken is lost at once', async () => {
  const first = await elected('first');
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/meterfeed`;
  await connection.request(path, {
    method: 'PATCH',
    contentType: 'application/merge-patch+json',
    body: { spec: { holderIdentity: 'thief', renewTime: '2026-01-01T00:00:00.000001Z' } },
  });
  await first.step();
  expect(await first.ended).toEqual({ kind: 'lost', reason: '"thief" has taken it' });
  expect(await leader()).toBe('thief');
});

test('work that ends, or fails, frees the lease', async () => {
  const first = await elected('first');
  first.finish();
  expect(await first.ended).toEqual({ kind: 'released' });
  expect(await leader()).toBe('');
  const second = await elected('second');
  second.finish(new Error('work failed'));
  await expect(second.ended).rejects.toThrow('work failed');
  expect(await leader()).toBe('');
});

test('one that waits can be stopped, and has touched nothing', async () => {
  await elected('first');
  const before = await lease();
  const second = campaign('second');
  await second.step();
  expect(await second.stop()).toEqual({ kind: 'released' });
  expect(second.log).toEqual([]);
  expect(await lease()).toEqual(before);
});

test('a missing namespace is logged once, with how to fix it, and waited for', async () => {
  namespace = 'not-there-yet';
  const first = campaign('first');
  await first.step(3);
  expect(first.leading).toBe(false);
  expect(first.electionLog).toEqual([
    'warn [controller] leader election: HTTP 404 NotFound: namespaces "not-there-yet" not found' +
      ': create the namespace, or name another one in POD_NAMESPACE',
  ]);
  const metadata = { name: namespace };
  await connection.request('/api/v1/namespaces', { method: 'POST', body: { metadata } });
  await first.step();
  expect(first.leading).toBe(true);
});

describe('two processes have one identity and a copy of one ledger', () => {
  const DURATION = 15_000;
  const on = (head: () => number): Succession => ({ prefix: 'pod-0_ledger_', head });
  const onCopy = (nonce: string, head: () => number) =>
    campaign(`pod-0_ledger_${nonce}`, undefined, on(head));
  const electedOn = (nonce: string, head: () => number) =>
    elected(`pod-0_ledger_${nonce}`, undefined, on(head));

  test('the one with the older ledger waits for as long as the other renews', async () => {
    let events = 5;
    const first = await electedOn('a', () => events);
    events = 7;
    await first.step();
    const second = onCopy('b', () => 5);
    for (let waited = 0; waited < 3 * DURATION; waited += RETRY) {
      await first.step();
      await second.step();
      expect([first.leading, second.leading]).toEqual([true, false]);
    }
  });

  test('with equal ledgers one leads after a single renewal, and the other has stopped its work', async () => {
    const first = await electedOn('a', () => 5);
    const second = onCopy('b', () => 5);
    await second.step(0);
    await first.step();
    expect(await first.ended).toEqual({ kind: 'lost', reason: '"pod-0_ledger_b" has taken it' });
    expect(first.log).toEqual(['leads', 'stopped']);
    expect(second.leading).toBe(true);
  });

  test('a restart takes the lease of the process before it at once, with all that this one wrote', async () => {
    const first = await electedOn('a', () => 7);
    first.suffer('unreachable');
    const second = onCopy('b', () => 8);
    await second.step(0);
    expect(second.leading).toBe(true);
    expect(await leader()).toBe('pod-0_ledger_b');
  });

  test('a restart on an older ledger leads when the lease has expired, not before', async () => {
    const first = await electedOn('a', () => 7);
    first.suffer('unreachable');
    const second = onCopy('b', () => 6);
    await second.step(7);
    expect(second.leading).toBe(false);
    await second.step();
    expect(second.leading).toBe(true);
  });

  test('a lease that does not say how far its ledger went is not taken at once', async () => {
    const first = await elected('pod-0_ledger_a');
    first.suffer('unreachable');
    const second = onCopy('b', () => 9);
    await second.step(1);
    expect(second.leading).toBe(false);
  });
});

describe('the work of a leader is fenced by a database as well', () => {
  const MINUTE = 60_000;
  /** The state between a process and its database. */
  const database = () => {
    const state = { away: '' };
    const fenced = (identity: string) =>
      campaign(identity, undefined, undefined, RETRY, 10_000, () => state.away || undefined);
    return { state, fenced };
  };

  test('without the database it gives the lease up, keeps its work, and leads on when it is back', async () => {
    const { state, fenced } = database();
    const first = fenced('a');
    await first.step(0);
    expect([first.leading, first.trusted]).toEqual([true, true]);
    state.away = 'the database does not answer';
    await first.step();
    expect(await leader()).toBe('');
    expect([first.leading, first.trusted]).toEqual([true, false]);
    await first.advance(5 * MINUTE);
    await first.step();
    expect(await leader()).toBe('');
    state.away = '';
    await first.step();
    expect(await leader()).toBe('a');
    expect([first.log, first.trusted]).toEqual([['leads'], true]);
  });

  test('its work ends when another process has the lease that it gave up', async () => {
    const { state, fenced } = database();
    const first = fenced('a');
    await first.step(0);
    state.away = 'the database does not answer';
    await first.step();
    const second = database().fenced('b');
    await second.step(0);
    expect(second.leading).toBe(true);
    state.away = '';
    await first.step();
    expect(await first.ended).toEqual({ kind: 'lost', reason: '"b" has taken it' });
    expect(first.log).toEqual(['leads', 'stopped']);
  });

  test('a candidate that may not lead leaves a free lease alone', async () => {
    const { state, fenced } = database();
    state.away = 'the tables are newer';
    const first = fenced('a');
    await first.step(2);
    expect(first.leading).toBe(false);
    expect(first.electionLog).toContainEqual(expect.stringContaining('the tables are newer'));
    state.away = '';
    await first.step();
    expect(first.leading).toBe(true);
  });

  test('it is not trusted ten seconds after its last renewal, and its work waits for the next', async () => {
    const { fenced } = database();
    const first = fenced('a');
    await first.step(0);
    first.suffer('unreachable');
    await first.step(3);
    expect([first.leading, first.trusted]).toEqual([true, true]);
    await first.step(3);
    expect([first.leading, first.trusted]).toEqual([true, false]);
    first.suffer('none');
    await first.step();
    expect([first.log, first.trusted]).toEqual([['leads'], true]);
  });
});
