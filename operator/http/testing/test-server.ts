import { Registry } from 'prom-client';
import { Credits } from '../../billing/budgets/credits.ts';
import { settingsFrom } from '../../settings/testing/settings.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { TenantBillingState } from '../../billing/enforcement/enforcement.ts';
import { loadHeldUsage } from '../../billing/held-usage/testing/held-usage.ts';
import { LevelRollups } from '../../ledger/leveldb/level-rollups.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { Summing } from '../../billing/usage/summing.ts';
import { buildCatalog, type Catalog } from '../../model/catalog.ts';
import type { HttpLimits } from '../limits.ts';
import { createHttpServer, type HttpServerOptions } from '../server.ts';
import type { DestinationsView, DiscoveryView, Views } from '../views.ts';
import { type ApiDocument, loadApiDocument } from './api-document.ts';

/** When the tests take place. */
export const NOW = Date.parse('2026-11-21T09:05:00Z');

export const API_TOKEN = 'api-canary-3f9d1c77b2';
export const INGEST_TOKEN = 'ingest-canary-81ab54e0';

export interface TestServerOptions extends Pick<HttpServerOptions, 'streams' | 'totals'> {
  readonly environment?: Readonly<Record<string, string>>;
  readonly ledger?: Ledger;
  readonly views?: Partial<Views>;
  readonly limits?: Partial<HttpLimits>;
  readonly usageDirectory?: string;
}

export interface CallOptions {
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A string or bytes are sent as they are, anything else as JSON. */
  readonly body?: unknown;
}

export interface CallResult {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; undefined when it is not JSON. */
  readonly json: unknown;
}

export interface TestServer extends AsyncDisposable {
  readonly port: number;
  /** Of PROBE_ADDR; 0 where none is set. */
  readonly probePort: number;
  readonly ledger: Ledger;
  readonly metrics: Registry;
  /** Lines of the log, level first. */
  readonly log: string[];
  /** Everything that was ever answered, headers included. */
  readonly answers: string[];
  settings: Settings;
  /** Asks, and fails when the answer is not as `docs/reference/openapi.yaml` says. */
  call(method: string, path: string, options?: CallOptions): Promise<CallResult>;
  close(): Promise<void>;
}

/** The wall clock stands still at {@link NOW}; durations are real. */
export const testClock: Clock = { ...systemClock, now: () => NOW };

let document: ApiDocument | undefined;

/**
 * A real server on a free port of 127.0.0.1, with the real settings loader and a ledger in memory.
 */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const api = (document ??= loadApiDocument());
  const ledger = options.ledger ?? createMemoryLedger();
  const metrics = new Registry();
  const log: string[] = [];
  const state = { settings: testSettings(options.environment) };
  const held = await loadHeldUsage(ledger, {
    clock: testClock,
    unknownTenants: () => state.settings.ingest.unknownTenants,
    isDiscovered: (id) => views.discovery.tenants().some((tenant) => tenant.id === id),
  });
  const credits = new Credits(ledger, () => 60_000, testClock);
  const views: Omit<Required<Views>, 'leads' | 'intake'> = {
    ...quietViews(() => state.settings),
    billingState: (tenant) => views.enforcement.stateOf(tenant),
    held,
    credits,
    ...options.views,
  };
  const write = (level: string) => (message: string, fields?: object) => {
    log.push(`${level} ${message} ${JSON.stringify(fields)}`);
  };
  const logger = {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
  };
  const summing =
    options.usageDirectory === undefined
      ? undefined
      : new Summing({
          ledger,
          rollups: new LevelRollups(options.usageDirectory),
          clock: testClock,
          logger,
        });
  const server = createHttpServer({
    version: '1.2.3',
    views,
    ledger,
    clock: testClock,
    logger,
    metrics,
    limits: options.limits,
    totals: options.totals ?? (() => summing?.totals),
    streams: options.streams,
  });
  const listened = await server.listen(new AbortController().signal);
  await summing?.open();
  const close = async (): Promise<void> => {
    await server.close();
    await summing?.close();
  };
  const { port } = listened.main;
  const answers: string[] = [];
  const call = async (method: string, path: string, wish: CallOptions = {}) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: {
        ...(wish.token !== undefined && { authorization: `Bearer ${wish.token}` }),
        ...(wish.body !== undefined && { 'content-type': 'application/json' }),
        ...wish.headers,
      },
      ...(wish.body !== undefined && { body: toBody(wish.body) }),
    });
    const text = await response.text();
    const contentType = response.headers.get('content-type') ?? '';
    answers.push(JSON.stringify([...response.headers]), text);
    if (method !== 'HEAD') {
      const { pathname } = new URL(path, 'http://host');
      // A secret before the path of a gateway's route changes no answer.
      const documented = pathname.replace(/^\/ingest\/[^/]+(?=\/)/, '');
      api.check({ method, path: documented, status: response.status, contentType, text });
    }
    const json: unknown = contentType.startsWith('application/json') ? JSON.parse(text) : undefined;
    return { status: response.status, headers: response.headers, text, json };
  };
  return {
    port,
    probePort: listened.probe?.port ?? 0,
    ledger,
    metrics,
    log,
    answers,
    get settings() {
      return state.settings;
    },
    set settings(next) {
      state.settings = next;
    },
    call,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Settings as the real loader gives them; an empty value takes a variable away. */
export function testSettings(environment: Readonly<Record<string, string>> = {}): Settings {
  return settingsFrom({
    ADAPTERS: 'noop',
    REGION: 'eu-central-1',
    LISTEN_ADDR: '127.0.0.1:0',
    CUSTOM_METRICS: 'tokens_used:tokens:model',
    'spec.ingest.unknownTenants': 'create',
    API_TOKEN,
    INGEST_TOKEN,
    ...environment,
  });
}

/** Built once for each setting, as in the operator itself. */
const catalogOf = memoized((customMetrics: Settings['metering']['customMetrics']): Catalog => {
  const outcome = buildCatalog(customMetrics);
  if (outcome.kind === 'invalid') throw new Error(outcome.problems.join());
  return outcome.catalog;
});

function memoized<K extends object, V>(make: (key: K) => V): (key: K) => V {
  const made = new WeakMap<K, V>();
  return (key) => {
    const value = made.get(key) ?? make(key);
    made.set(key, value);
    return value;
  };
}

/** Discovery that has just looked and found nothing, but for what is given. */
export function quietDiscovery(change: Partial<DiscoveryView> = {}): DiscoveryView {
  return {
    known: () => true,
    lookedAt: () => Number.MAX_SAFE_INTEGER,
    problems: () => [],
    tenants: () => [],
    clusters: () => [],
    ...change,
  };
}

/** The budgets of an operator without one. */
export const quietBudgets: Required<Views>['budgets'] = {
  of: () => undefined,
  prepaidUsed: () => 0n,
  prepaidCounts: () => undefined,
};

/** An operator that has discovered nothing and delivers nowhere. */
export function quietViews(settings: () => Settings): Omit<
  Required<Views>,
  'held' | 'leads' | 'intake'
> & {
  readonly destinations: Required<DestinationsView>;
} {
  return {
    settings,
    catalog: () => catalogOf(settings().metering.customMetrics),
    pricesKnown: () => true,
    credits: {
      add: async (request) => {
        return { kind: 'credited', credit: { ...request, at: NOW, countsFrom: NOW }, isNew: true };
      },
      list: async function* none() {},
    },
    fleet: () => [],
    readiness: () => [{ name: 'discovery', ok: true }],
    discovery: quietDiscovery(),
    metering: {
      failedTenantApis: () => [],
      withoutKubeconfig: () => [],
      unattributed: () => ({ total: 0, items: [], gpuSeconds: 0, gpuObjects: 0 }),
      metricsFailure: () => undefined,
      gaps: () => [],
      pastGaps: () => [],
      windows: () => Iterator.from([]),
    },
    explanations: { find: async () => ({ kind: 'gone', reason: 'none is kept' }) },
    enforcement: {
      isEnabled: () => false,
      receive: async () => ({ kind: 'refused' }),
      states: () => [],
      stateOf: activeTenant,
      setManual: async () => ({ kind: 'written' }),
      clearManual: async () => ({ kind: 'written' }),
      status: () => ({ suspendedClusters: [], pending: 0, problems: [] }),
    },
    budgets: quietBudgets,
    access: { of: () => ({ kind: 'unknown' }) },
    billingState: activeTenant,
    destinations: {
      list: () => [],
      summaryOf: () => 'OK',
      operations: {
        deadLetters: async () => undefined,
        replay: async () => ({ kind: 'unknown-destination' }),
        discard: async () => ({ kind: 'unknown-destination' }),
        moveCursor: async () => ({ kind: 'unknown-destination' }),
        reconcile: async () => ({ kind: 'unknown-destination' }),
        comparePrices: async () => ({ kind: 'unknown-destination' }),
        predictCorrection: async () => undefined,
      },
    },
  };
}

/** A tenant of which nothing is recorded. */
function activeTenant(tenant: string): TenantBillingState {
  const nothing = { reason: '', source: '', eventType: '' };
  return { tenant, state: 'active', ...nothing, since: 0, manual: false, sources: [] };
}

export function testTenant(id: string, change: Partial<Tenant> = {}): Tenant {
  return {
    id,
    displayName: id,
    region: 'eu-central-1',
    clusters: [id],
    createdAt: NOW - 86_400_000,
    ...change,
  };
}

export function testCluster(id: string, settings: Settings): TenantCluster {
  return {
    id,
    source: 'workload',
    namespace: 'ns',
    name: 'main',
    tenant: id,
    displayName: id,
    excluded: false,
    enforcementExempt: false,
    createdAt: NOW - 86_400_000,
    metering: settings.metering,
    overrides: [],
  };
}

function toBody(body: unknown): string | Uint8Array<ArrayBuffer> {
  if (typeof body === 'string') return body;
  return body instanceof Uint8Array ? new Uint8Array(body) : JSON.stringify(body);
}
