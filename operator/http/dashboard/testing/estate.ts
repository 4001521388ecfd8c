import type { Settings } from '../../../settings/settings.ts';
import type { TenantBillingState } from '../../../billing/enforcement/enforcement.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import { createMemoryLedger } from '../../../ledger/testing/memory-ledger.ts';
import { type TestEvent, testEvent } from '../../../ledger/testing/events.ts';
import type { Explanation } from '../../../metering/meters/explanation.ts';
import type { UsageEvent } from '../../../model/event.ts';
import { gpuShare, gpuWriter } from '../../testing/gpus.ts';
import { NOW, quietViews, testCluster, testTenant } from '../../testing/test-server.ts';
import type {
  DeadLetter,
  DestinationStatusView,
  DestinationsView,
  EnforcementView,
  Views,
  WindowReportView,
} from '../../views.ts';

const MINUTE = 60_000;

/** What tenants may call things to break a page that shows it. */
export const HOSTILE = [
  '<img src=x onerror=alert(1)>',
  '"><script>alert(2)</script>',
  "javascript:alert('3')",
  '${alert(4)}{{alert(5)}}',
  '\u202Eevil\u202C',
] as const;

/** An operator with everything on its pages, every name of a tenant's making hostile. */
export interface DashboardEstate {
  readonly ledger: Ledger;
  readonly views: (settings: () => Settings) => Partial<Views>;
  /** What the pages have asked to be changed. */
  readonly changes: string[];
}

/** The event whose id the pages link to. */
export const SHOWN_EVENT = gpuEvent({
  tenant: 'acme',
  quantity: '1.5',
  windowStart: NOW - 6 * MINUTE,
  sku: HOSTILE[0],
});

export async function createEstate(): Promise<DashboardEstate> {
  const ledger = createMemoryLedger();
  const events = HOSTILE.flatMap((name, index) =>
    [1, 2, 3].map((hours) =>
      gpuEvent({
        tenant: index === 0 ? 'acme' : name,
        quantity: '2.25',
        windowStart: NOW - hours * 60 * MINUTE,
        sku: name,
      }),
    ),
  );
  await ledger.append({ events: [...events, SHOWN_EVENT], windowEnd: NOW - 5 * MINUTE });
  const gpus = gpuWriter(ledger);
  for (const hours of [1, 2, 3]) {
    const start = NOW - hours * 60 * MINUTE;
    await gpus.shares(start, [
      ...['acme', ...HOSTILE].map((name) => gpuShare(name, name, [8, 7, 8, 3])),
      ...['acme', ...HOSTILE].map((name) => gpuShare(undefined, name, [2, 1, 0, 1, 10])),
    ]);
    await gpus.busy(start, 'acme', 'acme', 42.25);
  }
  const changes: string[] = [];
  return { ledger, changes, views: (settings) => richViews(settings, changes) };
}

function gpuEvent(wish: TestEvent): UsageEvent {
  return { ...testEvent(wish), metric: 'tenant_gpu_hours', unit: 'gpu-hours' };
}

function richViews(settings: () => Settings, changes: string[]): Partial<Views> {
  const quiet = quietViews(settings);
  const cluster = (name: string) => ({
    ...testCluster(`tenant-ns-${name}`, settings()),
    tenant: 'acme',
    displayName: name,
  });
  const gap = {
    source: 'metrics',
    scope: HOSTILE[1],
    from: NOW - 20 * MINUTE,
    to: NOW - 10 * MINUTE,
    reason: `the metrics API answered ${HOSTILE[0]}`,
  };
  return {
    discovery: {
      ...quiet.discovery,
      problems: () => [`two tenant clusters claim ${HOSTILE[0]}`],
      tenants: () => [
        testTenant('acme', { displayName: `Acme ${HOSTILE[0]}`, plan: HOSTILE[2], email: 'a@b.c' }),
        ...HOSTILE.map((name) => testTenant(name)),
      ],
      clusters: () => HOSTILE.map(cluster),
    },
    metering: {
      failedTenantApis: () => [
        {
          tenantCluster: HOSTILE[0],
          reason: `refused: exec: "${HOSTILE[1]}"`,
          since: NOW - MINUTE,
        },
      ],
      withoutKubeconfig: () => [HOSTILE[0]],
      unattributed: () => ({ total: 1, items: [HOSTILE[0]], gpuSeconds: 60, gpuObjects: 1 }),
      metricsFailure: () => ({ reason: HOSTILE[0], since: NOW - MINUTE }),
      gaps: () => [gap],
      pastGaps: () => [],
      windows: () =>
        Iterator.from([0, 1, 2]).map((back) => report(NOW - (5 + back) * MINUTE, [gap])),
    },
    explanations: { find: async (event) => ({ kind: 'found', explanation: explained(event.id) }) },
    enforcement: enforcement(quiet.enforcement, changes),
    destinations: destinations(changes),
  };
}

function report(end: number, gaps: WindowReportView['gaps']): WindowReportView {
  const amounts = { installed: 480, billed: 240, idle: 180, downtime: 60, system: 0 };
  const shares = { delivered: 480, healthy: 420, reserved: 480, inUse: 240 };
  const row = { gpuType: HOSTILE[0], ...amounts, overlap: 0, carried: 0, unaccounted: 0 };
  return {
    start: end - MINUTE,
    end,
    events: 42,
    gaps,
    details: {
      closedAt: new Date(end + 3000).toISOString(),
      durationMs: 12,
      scopes: ['pods', 'gpus'],
      duplicates: 0,
      conflicts: 0,
      tenants: 6,
      tenantClusters: 6,
      backfilled: true,
      refused: [`no event: tenant: "${HOSTILE[1]}"`],
      unattributed: { total: 1, items: [HOSTILE[0]] },
      gpus: {
        models: [row],
        privateNodes: [row],
        tenants: [{ tenant: HOSTILE[0], gpuType: HOSTILE[1], ...shares }],
        nodes: [{ node: HOSTILE[3], ...row }],
      },
      contestedNodes: [{ node: 'gpu-7', tenantClusters: [HOSTILE[0], HOSTILE[1]] }],
      openReversalSeconds: 1.5,
      expiredReversalSeconds: 0,
    },
  };
}

function explained(id: string): Explanation {
  return {
    id,
    measured: 1.5,
    carried: 0,
    givenBack: 0,
    addsUp: true,
    subjects: [
      {
        kind: 'Pod',
        namespace: HOSTILE[1],
        ownedBy: `label of the Namespace ${HOSTILE[2]}`,
        gpus: { type: HOSTILE[0], profile: 'full', devices: 1, gpus: 1 },
        node: { capacityType: 'spot', decidedBy: { sku: `label=${HOSTILE[3]}` } },
      },
    ],
    nodes: [HOSTILE[3]],
    shares: [[0, 'uid-1', HOSTILE[0], 0, 0, 60_000, 1.5, 0]],
    remainder: { count: 2, quantity: 0.25 },
  };
}

function enforcement(quiet: EnforcementView, changes: string[]): EnforcementView {
  let manual = true;
  const state = (tenant: string): TenantBillingState => ({
    tenant,
    state: manual ? 'suspended' : 'active',
    reason: HOSTILE[1],
    source: 'manual',
    eventType: 'manual',
    since: NOW - MINUTE,
    manual,
    sources: [
      {
        provider: 'stripe',
        subject: `subscription/${HOSTILE[4]}`,
        state: 'delinquent',
        reason: HOSTILE[0],
        eventType: 'invoice.payment_failed',
        at: NOW - MINUTE,
      },
    ],
  });
  return {
    ...quiet,
    states: () => [state('acme')],
    stateOf: state,
    setManual: async (tenant, to) => {
      changes.push(`set ${tenant} ${to}`);
      manual = true;
      return { kind: 'written' };
    },
    clearManual: async (tenant) => {
      changes.push(`clear ${tenant}`);
      manual = false;
      return { kind: 'written' };
    },
  };
}

function destinations(changes: string[]): DestinationsView {
  let letters: readonly DeadLetter[] = HOSTILE.map((name, index) => ({
    sequence: index + 1,
    at: NOW - MINUTE,
    reason: `422: unknown plan ${name}`,
    event: testEvent({ tenant: 'acme', sku: name, windowStart: NOW - (index + 7) * MINUTE }),
    // The answer to an attempt to send the first one was lost.
    ...(index === 0 && { unansweredSince: NOW - 2 * MINUTE }),
  }));
  const take = (ids: readonly string[] | undefined): number => {
    const before = letters.length;
    letters = letters.filter(({ event }) => ids !== undefined && !ids.includes(event.id));
    return before - letters.length;
  };
  const well: DestinationStatusView = {
    name: 'invoices',
    type: 'lago',
    ready: true,
    suspended: false,
    bootstrapped: true,
    cursor: 10,
    lagEvents: 0,
    lagSeconds: 0,
    delivered: 10,
    skipped: 0,
    deadLetters: 0,
    parked: 0,
    parkedTenants: [],
    offboarding: 0,
    planChanges: [],
    unknownMetrics: [],
    unpriced: [],
    lateRefusals: [],
    consecutiveFailures: 0,
    lastSuccessAt: NOW - MINUTE,
  };
  return {
    list: () => [
      well,
      {
        ...well,
        name: 'archive',
        type: 'webhook',
        deadLetters: letters.length,
        parked: 3,
        parkedTenants: [
          { tenant: HOSTILE[0], reason: HOSTILE[1], events: 3, since: NOW - 10 * MINUTE },
        ],
        offboarding: 2,
        planChanges: [
          {
            tenant: HOSTILE[0],
            from: HOSTILE[1],
            to: HOSTILE[2],
            at: NOW + 60 * MINUTE,
            since: NOW - MINUTE,
          },
          {
            tenant: 'acme',
            from: 'standard',
            to: 'gold',
            at: NOW - MINUTE,
            since: NOW - 2 * MINUTE,
            problem: HOSTILE[0],
          },
        ],
        unknownMetrics: [HOSTILE[1]],
        unpriced: [
          { metric: 'tenant_gpu_hours', sku: HOSTILE[0], plan: HOSTILE[1] },
          {
            metric: 'tenant_cpu_core_hours',
            plan: 'gold',
            atStake: '7.5',
            savedUntil: NOW + 60 * MINUTE,
          },
        ],
        lateRefusals: [
          { at: NOW - MINUTE, events: 2, reason: HOSTILE[1], example: SHOWN_EVENT.id },
        ],
        prices: { differing: 4, examples: [`plan ${HOSTILE[1]}: tenant_gpu_hours has no price`] },
        drift: {
          day: Date.UTC(2026, 10, 20),
          comparedAt: NOW - MINUTE,
          compared: 12,
          unanswered: 1,
          differing: 1,
          examples: [{ tenant: HOSTILE[0], metric: 'tenant_gpu_hours', difference: '-0.5' }],
        },
        invoices: {
          comparedAt: NOW - MINUTE,
          tenants: 3,
          unanswered: 1,
          problem: `status 500 ${HOSTILE[1]}`,
          differing: 1,
          examples: [
            {
              tenant: HOSTILE[0],
              metric: 'tenant_gpu_hours',
              difference: '-4',
              amount: { value: -8, currency: 'USD' },
              until: NOW - 60 * MINUTE,
              cause: `nobody has priced it in plan "${HOSTILE[1]}"`,
            },
          ],
        },
        tooSlow: { allowed: 10, needed: 25 },
        lastError: `the receiver answered ${HOSTILE[0]}`,
        lastErrorAt: NOW - MINUTE,
      },
      { ...well, name: 'closed', blocked: '401: the key is wrong', ready: false },
    ],
    summaryOf: () => 'OK',
    operations: {
      deadLetters: async (name) => ({ deadLetters: name === 'archive' ? letters : [] }),
      replay: async (name, ids) => {
        changes.push(`replay ${name} ${ids?.length ?? 'all'}`);
        return { kind: 'replayed', replayed: take(ids), stillRejected: 0, pending: 0 };
      },
      discard: async (name, ids) => {
        changes.push(`discard ${name} ${ids?.length ?? 'all'}`);
        return { kind: 'discarded', discarded: take(ids) };
      },
      moveCursor: async () => ({ kind: 'unknown-destination' }),
      reconcile: async () => ({ kind: 'unknown-destination' }),
      comparePrices: async () => ({ kind: 'unknown-destination' }),
      predictCorrection: async (name) => ({
        state: name === 'archive' ? 'dead-letter' : 'delivered',
        takesNegative: name !== 'closed',
      }),
    },
  };
}
