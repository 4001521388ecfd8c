import { afterAll, beforeAll, expect, test } from 'vitest';
import { useTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { Reflector } from '../../kubernetes/reflector.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import { projectVolumeClaim, type VolumeState } from '../timelines/retained-objects.ts';
import { createObservation } from '../timelines/observation.ts';
import type { Span } from '../timelines/timeline.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { settingsOf } from './testing/harness.ts';

const api = useTestCluster();
const stop = new AbortController();
let connection: Connection;
let running: Promise<void>;
let spans: readonly Span<VolumeState>[];
/** Moments of the run, milliseconds since the epoch. */
const times = { bookmarked: 0, removed: 0, arrived: 0 };

/**
 * API servers may send a bookmark two seconds before they end a watch, and at most a minute later.
 */
const WATCH_MS = 6_000;
/** A bookmark is overdue after 66 seconds. After 90 the connection is closed. */
const DELAY_MS = 75_000;

/** Passes on lines up to the first bookmark. Delays the others until they are released. */
class DelayedStreams implements Pick<Connection, 'request' | 'stream'> {
  readonly #connection: Connection;
  readonly #bookmark = Promise.withResolvers<void>();
  readonly #released = Promise.withResolvers<void>();

  constructor(of: Connection) {
    this.#connection = of;
  }

  /** Resolves when the first bookmark has passed. */
  get bookmarked(): Promise<void> {
    return this.#bookmark.promise;
  }

  release(): void {
    this.#released.resolve();
  }

  request: Connection['request'] = (path, options) => this.#connection.request(path, options);

  stream: Connection['stream'] = async (path, options) => {
    const outcome = await this.#connection.stream(path, options);
    return outcome.kind === 'ok' ? { kind: 'ok', lines: this.#delayed(outcome.lines) } : outcome;
  };

  async *#delayed(lines: AsyncIterable<string>): AsyncIterable<string> {
    for await (const line of lines) {
      yield line;
      if (!line.includes('"BOOKMARK"')) continue;
      this.#bookmark.resolve();
      await this.#released.promise;
    }
  }
}

/** The machine's clock, which a test can move forward. */
function waitingClock(): Clock & { skip(ms: number): void } {
  let skipped = 0;
  return {
    now: () => systemClock.now() + skipped,
    monotonic: () => systemClock.monotonic() + skipped,
    sleep: (ms, signal) => systemClock.sleep(ms, signal),
    skip: (ms) => {
      skipped += ms;
    },
  };
}

async function startVolume(path: string): Promise<void> {
  const claim = await api.call('POST', path, {
    metadata: { name: 'v', labels: { 'vcluster.loft.sh/managed-by': 'a' } },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'fast',
      resources: { requests: { storage: '1Gi' } },
    },
  });
  const status = { phase: 'Bound', capacity: { storage: '1Gi' } };
  const { metadata } = await api.call('PUT', `${path}/v/status`, { ...claim, status });
  // No controller runs that would remove the finalizer of a claim in use.
  const free = { ...(metadata as object), finalizers: [] };
  await api.call('PUT', `${path}/v`, { ...claim, metadata: free });
}

beforeAll(async () => {
  connection = connectWith(api.kubeconfig);
  const namespace = await api.createNamespace('held');
  const volumes = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
  await startVolume(volumes);
  const delayed = new DelayedStreams(connection);
  const clock = waitingClock();
  const observation = createObservation({
    nodeSettings: () => settingsOf({}).metering,
    billedUntil: (present) => present,
  });
  const gone = Promise.withResolvers<void>();
  const source = new Reflector({
    connection: delayed,
    resource: { group: '', version: 'v1', plural: 'persistentvolumeclaims', namespace },
    project: projectVolumeClaim,
    handlers: [observation.volumes, { upserted: () => undefined, deleted: () => gone.resolve() }],
    clock,
    random: Math.random,
    logger: createCapturingLogger(),
    timings: { watchMin: WATCH_MS, watchMax: WATCH_MS },
  });
  running = source.run(stop.signal);
  await source.ready(stop.signal);
  await delayed.bookmarked;
  times.bookmarked = clock.now();
  await clock.sleep(500);
  await api.call('DELETE', `${volumes}/v`);
  times.removed = clock.now();
  clock.skip(DELAY_MS);
  delayed.release();
  await gone.promise;
  times.arrived = clock.now();
  spans = [...observation.volumes.inNamespace(namespace)].flatMap((volume) => volume.spans);
}, 180_000);

afterAll(async () => {
  stop.abort();
  await running;
  await connection.close();
});

test('W33: a volume that went while a connection was stalled is not billed until the connection continues', () => {
  expect(spans).toHaveLength(1);
  const { to, uncertainTo = 0 } = spans[0] ?? { to: Number.NaN };
  expect((times.removed - to) / 1000).toBeGreaterThanOrEqual(0);
  expect((times.bookmarked - to) / 1000).toBeLessThanOrEqual(1);
  expect(Math.abs(times.arrived - to - uncertainTo) / 1000).toBeLessThanOrEqual(1);
});
