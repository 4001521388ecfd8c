import { describe, expect, test } from 'vitest';
import type { OverrideUse } from '../discovery/discover.ts';
import type { Condition } from '../kubernetes/conditions.ts';
import { type ConditionClaim, conditionsOf, type SpecStatus } from './conditions.ts';
import {
  destinationClaims,
  type DestinationFacts,
  destinationFields,
} from './destination-status.ts';
import { policyClaims, policyFields } from './policy-status.ts';
import { overrideClaims, overrideFields } from './tenant-override.ts';
import { clusterOf, progressOf, tenantsOf, usesOf, viewsOf, windowsOf } from './testing/facts.ts';
import type { DestinationProgress, WindowsView } from './views.ts';

const NOON = Date.parse('2026-11-21T12:00:00Z');
const ACCEPTED: SpecStatus = { kind: 'accepted' };
const REFUSED: SpecStatus = {
  kind: 'invalid',
  reason: 'SecretNotFound',
  message: 'spec.webhook.secretRefs[0]: no such Secret: "gone"',
  inForce: true,
};

/** `Ready=True Metering`, one a claim. */
function brief(claims: readonly ConditionClaim[]): readonly string[] {
  return claims.map(({ type, status, reason }) => `${type}=${status} ${reason}`);
}

describe('conditions', () => {
  const ready: ConditionClaim = { type: 'Ready', status: 'True', reason: 'Metering', message: 'm' };
  const before: Condition = {
    ...ready,
    observedGeneration: 1,
    lastTransitionTime: '2026-11-20T00:00:00Z',
  };

  test('a new reason for the same status does not look like a transition', () => {
    const [next] = conditionsOf([{ ...ready, reason: 'Other' }], [before], 2, NOON);
    expect(next).toEqual({
      ...before,
      reason: 'Other',
      observedGeneration: 2,
    });
  });

  test('a changed status carries the time of its change, to the second', () => {
    const [next] = conditionsOf([{ ...ready, status: 'False' }], [before], 1, NOON + 999);
    expect(next?.lastTransitionTime).toBe('2026-11-21T12:00:00Z');
  });

  test('stand in one order, so that equal states compare equal', () => {
    const types = ['Stalled', 'Delivering', 'Ready', 'Bootstrapped'] as const;
    const next = conditionsOf(
      types.map((type) => ({ ...ready, type })),
      [],
      1,
      NOON,
    );
    expect(next.map(({ type }) => type)).toEqual([
      'Ready',
      'Bootstrapped',
      'Delivering',
      'Stalled',
    ]);
  });
});

describe('the status of a destination', () => {
  const healthy: DestinationFacts = {
    specStatus: ACCEPTED,
    suspended: false,
    progress: progressOf('main'),
  };
  const failing = progressOf('main', { consecutiveFailures: 3 });

  test('a destination that cannot be used fills the volume, and nobody learns what it will send', () => {
    const stalled = (change: Partial<DestinationFacts>): string => {
      const facts = { ...healthy, specStatus: REFUSED, progress: undefined, ...change };
      return destinationClaims(facts).find(({ type }) => type === 'Stalled')?.message ?? '';
    };
    const specStatus: SpecStatus = { ...REFUSED, inForce: false };
    const windowEnd = '2026-11-21T12:00:00Z';
    const problem = 'spec.webhook.secretRefs[0]: no such Secret: "gone"';
    const backlog = { windowEnd, bytes: 700 * 1024 ** 2, fullInMs: 9.5 * 86_400_000 };
    expect(stalled({ specStatus, backlog })).toBe(
      `${problem} (nothing is in force; once it is usable it sends windows from ${windowEnd} on, more than 512 MiB in the ledger; the volume is full in less than 16 days)`,
    );
    expect(stalled({ specStatus, backlog: { bytes: 3 } })).toBe(
      `${problem} (nothing is in force; once it is usable it sends everything from the oldest event on, less than 1 MiB in the ledger)`,
    );
    expect(stalled({ specStatus, backlog: { ...backlog, fullInMs: 0 } })).toContain(
      'the volume is full in less than 1 day)',
    );
    expect(stalled({ specStatus })).toBe(`${problem} (nothing is in force)`);
    expect(stalled({ backlog })).toBe(`${problem} (the last good settings stay in force)`);
  });

  test.each([
    [
      'delivers',
      healthy,
      ['Ready=True Delivering', 'Bootstrapped=True Bootstrapped', 'Delivering=True Delivering'],
    ],
    [
      'is not fed yet',
      { ...healthy, progress: undefined },
      ['Ready=Unknown Starting', 'Bootstrapped=Unknown Starting', 'Delivering=Unknown Starting'],
    ],
    [
      'cannot be prepared',
      {
        ...healthy,
        progress: progressOf('main', { bootstrapped: false, lastError: 'HTTP 500' }),
      },
      [
        'Ready=False NotBootstrapped',
        'Bootstrapped=False NotBootstrapped',
        'Delivering=False NotBootstrapped',
      ],
    ],
    [
      'is being prepared',
      { ...healthy, progress: progressOf('main', { bootstrapped: false }) },
      ['Ready=Unknown Starting', 'Bootstrapped=Unknown Starting', 'Delivering=Unknown Starting'],
    ],
    [
      'needs an operator',
      { ...healthy, progress: progressOf('main', { blocked: 'HTTP 401', lastError: 'HTTP 401' }) },
      ['Ready=False Blocked', 'Bootstrapped=True Bootstrapped', 'Delivering=False Blocked'],
    ],
    [
      'fails',
      { ...healthy, progress: failing },
      [
        'Ready=False DeliveryFailing',
        'Bootstrapped=True Bootstrapped',
        'Delivering=False DeliveryFailing',
      ],
    ],
    [
      'is to be suspended while posts go on',
      { ...healthy, suspended: true },
      ['Ready=True Delivering', 'Bootstrapped=True Bootstrapped', 'Delivering=True Delivering'],
    ],
    [
      'is suspended, with a spec that cannot be used',
      {
        ...healthy,
        specStatus: REFUSED,
        suspended: true,
        progress: progressOf('main', { suspended: true }),
      },
      [
        'Ready=False SecretNotFound',
        'Bootstrapped=True Bootstrapped',
        'Delivering=False Suspended',
        'Stalled=True SecretNotFound',
      ],
    ],
    [
      'is suspended before it ever ran',
      { ...healthy, suspended: true, progress: undefined },
      ['Ready=False Suspended', 'Bootstrapped=Unknown Starting', 'Delivering=False Suspended'],
    ],
    [
      'goes on with its last good spec',
      { ...healthy, specStatus: REFUSED },
      [
        'Ready=False SecretNotFound',
        'Bootstrapped=True Bootstrapped',
        'Delivering=True Delivering',
        'Stalled=True SecretNotFound',
      ],
    ],
    [
      'waits for a Secret that cannot be read',
      { ...healthy, specStatus: { kind: 'waiting', message: 'HTTP 500' } as const },
      [
        'Ready=Unknown SecretUnreadable',
        'Bootstrapped=True Bootstrapped',
        'Delivering=True Delivering',
      ],
    ],
  ])('reports that it %s', (_, facts, conditions) => {
    expect(brief(destinationClaims(facts))).toEqual(conditions);
  });

  const HOST = 'HTTP POST /hook: host not found: "billing.exmaple.com"';
  test.each([
    ['cannot be prepared', { bootstrapped: false, lastError: HOST }],
    ['needs an operator', { blocked: HOST, lastError: HOST }],
    ['needs an operator before it could be prepared', { bootstrapped: false, blocked: HOST }],
    ['fails', { consecutiveFailures: 3, lastError: HOST }],
  ])('sends people elsewhere for the cause when it %s', (_, change) => {
    const claims = destinationClaims({ ...healthy, progress: progressOf('main', change) });
    const messageOf = (type: string) => claims.find((claim) => claim.type === type)?.message;
    expect(messageOf('Ready')).toMatch(
      /^HTTP POST \/hook: host not found: "billing\.exmaple\.com"; /,
    );
    expect(messageOf('Delivering')).toBe(messageOf('Ready'));
  });

  test('says at once that it is blocked, not that it is retried without end', () => {
    const progress = progressOf('main', { bootstrapped: false, blocked: HOST, lastError: HOST });
    const claims = destinationClaims({ ...healthy, progress });
    expect(brief(claims)).toEqual([
      'Ready=False Blocked',
      'Bootstrapped=False NotBootstrapped',
      'Delivering=False Blocked',
    ]);
    expect(claims.map(({ message }) => message).join()).not.toContain('without end');
  });

  test('says that delivery has not begun yet where a refused spec keeps it from beginning', () => {
    const specStatus = { ...REFUSED, inForce: false };
    const claims = destinationClaims({ specStatus, suspended: false, progress: undefined });
    expect(brief(claims)).toEqual([
      'Ready=False SecretNotFound',
      'Bootstrapped=False SecretNotFound',
      'Delivering=False SecretNotFound',
      'Stalled=True SecretNotFound',
    ]);
  });

  test('says that it delivers and that it is not ready, and not why both are so', () => {
    const claims = destinationClaims({ ...healthy, specStatus: REFUSED });
    const messages = claims.map(({ type, message }) => `${type}: ${message}`);
    expect(messages[0]).toMatch(/no such Secret: "gone"; the last good settings stay in force$/);
    expect(messages[2]).toMatch(/^Delivering: .*, with the last valid settings$/);
  });

  test('does not flap with every single retry', () => {
    const once = { ...healthy, progress: progressOf('main', { consecutiveFailures: 2 }) };
    expect(destinationClaims(once)).toEqual(destinationClaims(healthy));
  });

  test('says whether anything is in force beside a refused spec', () => {
    const stalled = (inForce: boolean) =>
      destinationClaims({ ...healthy, specStatus: { ...REFUSED, inForce } }).at(-1)?.message;
    expect(stalled(true)).toContain('(the last good settings stay in force)');
    expect(stalled(false)).toContain('(nothing is in force)');
  });

  test('does not hide dead letters, parked tenants, unpriced or unbilled usage behind a healthy delivery', () => {
    const progress = progressOf('main', {
      deadLetters: 1,
      parkedTenants: [{ tenant: 'acme', reason: 'unknown plan', events: 4, since: NOON }],
      unpriced: [{ metric: 'tenant_gpu_hours', sku: 'H100', plan: 'standard', savedUntil: NOON }],
      lateRefusals: [{ at: NOON, events: 3, reason: 'no_meter', example: 'svc1_1' }],
    });
    const claims = destinationClaims({ ...healthy, progress });
    expect(brief(claims)).toEqual([
      ...brief(destinationClaims(healthy)),
      'DeadLetters=True EventsRefused',
      'TenantsParked=True TenantRefused',
      'UnpricedUsage=True NoPrice',
      'LateRefusals=True UsageNotBilled',
    ]);
    const messages = claims.map(({ message }) => message).join();
    expect(messages).toContain('/api/v1/destinations/main/dead-letters');
    expect(messages).toContain('tenant_gpu_hours of "H100" in plan "standard"');
    expect(messages).toMatch(/a price that is set before 20\d\d-\d\d-\d\dT12:00:00.* still bills/);
    expect(messages).toContain('such as event svc1_1: no_meter');
  });

  test('reports which metric of spec.metrics nobody knows, instead of leaving it out in silence', () => {
    const progress = progressOf('main', { unknownMetrics: ['tenant_gpu_hour', 'tokens'] });
    const claims = destinationClaims({ ...healthy, progress });
    expect(brief(claims)).toEqual([
      ...brief(destinationClaims(healthy)),
      'UnknownMetrics=True NotInCatalogue',
    ]);
    expect(claims.at(-1)?.message).toContain('unknown metrics: "tenant_gpu_hour", "tokens"');
  });

  test('does not hide usage that is on no invoice behind sums that agree', () => {
    const invoices = {
      comparedAt: NOON,
      tenants: 1,
      unanswered: 0,
      differing: 1,
      examples: [
        {
          tenant: 'acme',
          metric: 'tenant_gpu_hours',
          difference: '-4',
          amount: { value: -8, currency: 'USD' },
          until: NOON,
          cause: 'the usage arrived after its invoice was final',
        },
      ],
    };
    const claims = destinationClaims({ ...healthy, progress: progressOf('main', { invoices }) });
    expect(brief(claims)).toEqual([
      ...brief(destinationClaims(healthy)),
      'InvoiceMismatch=True InvoicesDiffer',
    ]);
    expect(claims.at(-1)?.message).toContain(
      'tenant_gpu_hours of tenant acme by -4 (about -8 USD): the usage arrived after its invoice was final',
    );
    const none = { ...invoices, differing: 0, examples: [] };
    const quiet = destinationClaims({
      ...healthy,
      progress: progressOf('main', { invoices: none }),
    });
    expect(quiet).toEqual(destinationClaims(healthy));
  });

  test('does not hide sums that differ, or usage that comes too fast, behind a healthy delivery', () => {
    const drift = {
      day: Date.UTC(2026, 10, 20),
      comparedAt: NOON,
      compared: 80,
      unanswered: 0,
      differing: 1,
      examples: [{ tenant: 'acme', metric: 'tenant_gpu_hours', difference: '-0.25' }],
    };
    const none = { ...drift, differing: 0, examples: [] };
    const claimsOf = (change: object) =>
      destinationClaims({ ...healthy, progress: progressOf('main', change) });
    expect(claimsOf({ drift: none })).toEqual(claimsOf({}));
    const claims = claimsOf({ drift, tooSlow: { allowed: 20, needed: 140 } });
    expect(brief(claims)).toEqual([
      ...brief(destinationClaims(healthy)),
      'Drift=True SumsDiffer',
      'RateLimitTooLow=True UsageComesFaster',
    ]);
    const messages = claims.map(({ message }) => message).join();
    expect(messages).toContain('tenant_gpu_hours of tenant acme by -0.25');
    expect(messages).toContain('/api/v1/reconcile?destination=main&from=2026-11-20&to=2026-11-21');
    expect(messages).toContain(
      'About 140 events a second arrive, and the billing system accepts 20',
    );
  });

  test('does not hide prices that differ from the price books', () => {
    const claimsOf = (change: object) =>
      destinationClaims({ ...healthy, progress: progressOf('main', change) });
    expect(claimsOf({ prices: { differing: 0, examples: [] } })).toEqual(claimsOf({}));
    const examples = Array.from({ length: 3 }, (_, n) => `${n}`.repeat(1_000));
    const claims = claimsOf({ prices: { differing: 4, examples } });
    expect(brief(claims)).toEqual([
      ...brief(destinationClaims(healthy)),
      'PricesDiffer=True NotAsPriceBook',
    ]);
    const message = claims.at(-1)?.message ?? '';
    expect(message).toMatch(/000; 111.*\. GET \/api\/v1\/destinations\/main\/plan lists all$/);
    expect(message.length).toBeLessThan(1_200);
  });

  test('carries the numbers, whole seconds, and an error of bounded length', () => {
    const progress = progressOf('main', {
      cursorWindowEnd: '2026-11-21T11:59:00Z',
      lastSuccessAt: NOON,
      lastError: 'e'.repeat(5_000),
      parkedTenants: [{ tenant: 'acme', reason: 'r'.repeat(5_000), events: 4, since: NOON }],
    });
    expect(destinationFields(progress)).toEqual({
      cursor: { sequence: 12, windowEnd: '2026-11-21T11:59:00Z' },
      lag: { events: 3, seconds: 10 },
      delivered: 7,
      deadLetters: 0,
      parkedTenants: {
        total: 1,
        items: [
          { tenant: 'acme', reason: 'r'.repeat(1024), events: 4, since: '2026-11-21T12:00:00Z' },
        ],
      },
      lastDeliveryTime: '2026-11-21T12:00:00Z',
      lastError: 'e'.repeat(1024),
    });
  });
});

describe('the status of an override', () => {
  const facts = (name: string, ...uses: readonly OverrideUse[]) => ({
    name,
    specStatus: ACCEPTED,
    tenants: usesOf(...uses),
    delivery: { list: () => [] },
  });
  const older: OverrideUse = { name: 'older', applied: ['tenant-acme-prod'], conflicts: [] };
  const younger: OverrideUse = {
    name: 'younger',
    applied: ['tenant-acme-dev'],
    conflicts: [{ cluster: 'tenant-acme-prod', overriddenBy: 'older' }],
  };

  test('lists what it applies to', () => {
    expect(overrideFields(facts('younger', older, younger))).toEqual({
      matched: { total: 1, items: ['tenant-acme-dev'] },
    });
  });

  test('lists the first hundred of many and counts all', () => {
    const applied = Array.from({ length: 101 }, (_, index) => `tenant-acme-${index}`);
    const { matched } = overrideFields(facts('all', { name: 'all', applied, conflicts: [] }));
    expect([matched?.total, matched?.items?.length]).toEqual([101, 100]);
  });

  test('reports to both sides of a conflict which one applies', () => {
    expect(brief(overrideClaims(facts('older', older, younger)))).toEqual([
      'Ready=True InForce',
      'Conflicting=True YoungerIgnored',
    ]);
    const claims = overrideClaims(facts('younger', older, younger));
    expect(brief(claims)).toEqual(['Ready=True InForce', 'Conflicting=True OlderApplies']);
    expect(claims.at(1)?.message).toContain('"older"');
  });

  test('does not look in force where older ones hold everywhere', () => {
    const beaten = { ...younger, applied: [] };
    expect(brief(overrideClaims(facts('younger', older, beaten)))).toEqual([
      'Ready=False OlderApplies',
      'Conflicting=True OlderApplies',
    ]);
  });

  test('reports a plan that a billing system does not know, or that has no price', () => {
    const acme = clusterOf('acme', 'prod', { tenant: 'acme', plan: 'glod', overrides: ['new'] });
    const use = { name: 'new', applied: [acme.id], conflicts: [] };
    const reason = 'no such plan in Lago: plan: "glod"';
    const parkedTenants = [{ tenant: 'acme', reason, events: 4, since: NOON }];
    const claimsWith = (...destinations: readonly DestinationProgress[]) =>
      overrideClaims({
        name: 'new',
        specStatus: ACCEPTED,
        tenants: { ...tenantsOf(acme), overrides: () => [use] },
        plan: 'glod',
        delivery: { list: () => destinations },
      });
    expect(brief(claimsWith(progressOf('main')))).toEqual(['Ready=True InForce']);
    const parked = claimsWith(progressOf('main', { parkedTenants }));
    expect(brief(parked)).toEqual(['Ready=True InForce', 'PlanUnusable=True TenantsParked']);
    expect(parked[1]?.message).toContain(`destination "main": tenant "acme": ${reason}`);
    const unpriced = [{ metric: 'tenant_gpu_hours', plan: 'glod' }];
    const free = claimsWith(progressOf('main', { unpriced }));
    expect(brief(free)).toEqual(['Ready=True InForce', 'PlanUnusable=True NoPrice']);
    const others = progressOf('main', { unpriced: [{ metric: 'tenant_gpu_hours', plan: 'gold' }] });
    expect(brief(claimsWith(others))).toEqual(['Ready=True InForce']);
  });

  test('does not claim to match nothing before discovery has looked', () => {
    expect(brief(overrideClaims(facts('new', older)))).toEqual(['Ready=Unknown Starting']);
    expect(overrideFields(facts('new', older))).toEqual({});
    const looked = facts('new', { name: 'new', applied: [], conflicts: [] });
    expect(brief(overrideClaims(looked))).toEqual(['Ready=True NothingMatched']);
  });
});

describe('the status of the policy', () => {
  const WINDOW_MS = 60_000;
  const closed = (agoMs: number) => windowsOf({ lastWindowEnd: () => NOON - agoMs });

  test.each([
    ['True Metering', closed(WINDOW_MS)],
    ['False WindowsLate', closed(3 * WINDOW_MS + 1)],
    ['Unknown Starting', windowsOf()],
  ])('Ready=%s follows the windows', (expected, windows) => {
    expect(brief(policyClaims(ACCEPTED, viewsOf({ windows }), WINDOW_MS, NOON))).toEqual([
      `Ready=${expected}`,
    ]);
  });

  test('is the front page: tenants, gaps, failed APIs, destinations, ledger', () => {
    const gap = (from: number) => ({
      source: 'metrics',
      scope: 'tenant-acme-prod',
      from,
      to: from + 1_000,
      reason: 'HTTP 503',
    });
    const status = policyFields(
      viewsOf({
        delivery: { list: () => [progressOf('b'), progressOf('a')] },
        tenants: tenantsOf(
          clusterOf('acme', 'prod', { tenant: 'acme' }),
          clusterOf('acme', 'dev', { tenant: 'acme' }),
          clusterOf('free', 'one', { excluded: true }),
        ),
        windows: windowsOf({
          lastWindowEnd: () => NOON,
          gaps: () => [gap(NOON - 9_000), gap(NOON - 1_000)],
          failedTenantApis: () => [
            { tenantCluster: 'tenant-x-y', reason: 'no Secret', since: NOON },
          ],
        }),
      }),
      WINDOW_MS,
    );
    expect(status).toEqual({
      lastWindow: '2026-11-21T12:00:00Z',
      windowSeconds: 60,
      tenants: 1,
      tenantClusters: 2,
      enforcement: { mode: 'observe', suspendedTenantClusters: 0, pendingObjects: 0 },
      failedTenantAPIs: {
        total: 1,
        items: [
          { tenantCluster: 'tenant-x-y', reason: 'no Secret', since: '2026-11-21T12:00:00Z' },
        ],
      },
      withoutKubeconfig: 0,
      gaps: {
        total: 2,
        items: [
          {
            source: 'metrics',
            scope: 'tenant-acme-prod',
            from: '2026-11-21T11:59:59Z',
            to: '2026-11-21T12:00:00Z',
            reason: 'HTTP 503',
          },
          expect.objectContaining({ from: '2026-11-21T11:59:51Z' }),
        ],
      },
      destinations: [
        { name: 'a', cursor: 12, lagSeconds: 10 },
        { name: 'b', cursor: 12, lagSeconds: 10 },
      ],
      ledger: { id: 'a-ledger', sequence: 42, bytes: 4_096, segments: 1, chain: 'c0ffee' },
    });
  });

  test('reports what goes wrong while windows close in time', () => {
    const views = viewsOf({
      windows: windowsOf({
        lastWindowEnd: () => NOON,
        metricsFailure: () => ({ reason: 'HTTP 503', since: NOON }),
        prometheus: () => ({
          silent: 'connection refused',
          manyQueries: 1_001,
          leftOut: [
            {
              metric: 'tenant_network_egress_gb',
              placeholder: 'project',
              tenantClusters: 2,
              example: 'a',
            },
          ],
        }),
      }),
      tenants: { ...tenantsOf(), problems: () => ['plan: unknown: "gold"'] },
      ledger: {
        stats: () => ({
          ...viewsOf().ledger.stats(),
          disk: { level: 'ingest-refused', usedRatio: 0.86, retentionShortened: true },
          problems: ['segment 3: missing'],
        }),
      },
      held: {
        list: () => [{ tenant: 'acm', events: 4, since: 0 }],
        pushedTenants: () => [{ id: 'acm', since: 0 }],
      },
      enforcement: {
        mode: () => 'enforce',
        status: () => ({ suspendedClusters: [], pending: 1, problems: ['Namespace/a: HTTP 403'] }),
      },
      anchors: { problems: () => ['webhook: HTTP 500'] },
      focusProblem: () => '2026-11: PUT part-000: bucket "costs": HTTP 403: AccessDenied',
    });
    const claims = policyClaims(ACCEPTED, views, WINDOW_MS, NOON);
    expect(brief(claims)).toEqual([
      'Ready=True Metering',
      'MetricsUnavailable=True MetricsApiUnreadable',
      'PrometheusUnreachable=True NoAnswer',
      'PrometheusQueriesMany=True OnePerTenantCluster',
      'PrometheusQueriesLeftOut=True NameMissing',
      'DiscoveryProblems=True Ambiguous',
      'UsageHeld=True UnknownTenants',
      'EnforcementFailing=True CannotMark',
      'AnchorsFailing=True NotStored',
      'FocusExportFailing=True CannotWrite',
      'DiskFilling=True IngestRefused',
      'RetentionShortened=True DiskFilling',
      'LedgerDamaged=True ProblemsFound',
    ]);
    const messages = claims.map(({ message }) => message).join();
    for (const cause of [
      'HTTP 503',
      'connection refused',
      '1001 queries',
      'AccessDenied',
      '{{project}}',
      '"gold"',
      '"acm"',
      'segment 3',
      'HTTP 403',
      'HTTP 500',
    ])
      expect(messages).toContain(cause);
  });

  test('GPU time that nobody is billed for is in no status, or does not say whose it may be', () => {
    const unattributed = {
      items: ['a/x: why (60 GPU-seconds)', 'a/y: why (30 GPU-seconds)', 'a/z: why'],
      gpuSeconds: 90,
      gpuObjects: 2,
    };
    const claimsOf = (change: Partial<WindowsView>) => {
      const windows = windowsOf({ lastWindowEnd: () => NOON, ...change });
      return policyClaims(ACCEPTED, viewsOf({ windows }), WINDOW_MS, NOON);
    };
    const reported = claimsOf({ unattributed: () => unattributed });
    expect(reported).toContainEqual({
      type: 'GPUTimeUnattributed',
      brief: 'GPU time is billed to nobody',
      status: 'True',
      reason: 'OwnerUnknown',
      message:
        '90 GPU-seconds of the last window are billed to nobody. 2 objects used them: a/x: why (60 GPU-seconds), a/y: why (30 GPU-seconds); GET /api/v1/windows lists more',
    });
    const none = claimsOf({ unattributed: () => ({ ...unattributed, gpuSeconds: 0 }) });
    expect(none.map(({ type }) => type)).toEqual(['Ready']);
  });

  test('does not say "no tenants" before discovery has looked', () => {
    const tenants = { ...tenantsOf(), known: () => false };
    expect(policyFields(viewsOf({ tenants }), WINDOW_MS)).not.toHaveProperty('tenants');
  });
});
