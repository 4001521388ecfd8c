import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parse, stringify } from 'yaml';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import { startOperator } from '../e2e/local/operator-process.ts';
import { runFiles } from '../e2e/local/run-directory.ts';
import { usePostgres } from '../operator/ledger/testing/postgres-ledger.ts';
import { ALERT_CASES, type AlertCase, OLD_COUNTERS, SLOW_CASES } from './testing/alert-cases.ts';
import { playMeter, startHub } from '../operator/app/hub/testing/fleet-world.ts';

const cluster = useOwnTestCluster();
const used = usePostgres();
const run = promisify(execFile);
const COMPONENT = fileURLToPath(new URL('components/prometheus/', import.meta.url));
const ALERTS_PAGE = fileURLToPath(new URL('../docs/reference/alerts.md', import.meta.url));
const METRICS_PAGE = fileURLToPath(new URL('../docs/reference/metrics.md', import.meta.url));

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}

let directory = '';
/** Names of all metrics that the running operator has, with what their kinds add to them. */
let registered: ReadonlySet<string> = new Set();
/** And of those that a hub has. */
let ofHub: ReadonlySet<string> = new Set();
let exposition = '';
let hubExposition = '';
let rules: readonly Rule[] = [];
let groups = '';

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-alerts-'));
  const manifest = parse(await readFile(`${COMPONENT}rules.yaml`, 'utf8')) as {
    readonly spec: { readonly groups: readonly { readonly rules: readonly Rule[] }[] };
  };
  rules = manifest.spec.groups.flatMap((group) => group.rules);
  groups = stringify(manifest.spec);
  await cluster.kubectl(['apply', '--kustomize', fileURLToPath(new URL('..', import.meta.url))]);
  const operator = await startOperator({
    files: runFiles(directory),
    kubeconfig: cluster.kubeconfigPath,
    env: {},
    signal: AbortSignal.timeout(60_000),
  });
  exposition = await (await fetch(`${operator.address}/metrics`)).text();
  await operator.stop();
  registered = new Set(namesIn(exposition));
  const database = await used.server().createDatabase();
  const meter = await playMeter(database, { source: 'berlin', region: 'eu-1' });
  const hub = await startHub([database]);
  // What a stream brings is there once it is open.
  const open = async (): Promise<void> => {
    hubExposition = await hub.text('/metrics');
    expect(hubExposition).toContain('meterfeed_destination_lag_seconds');
  };
  await vi.waitFor(open, { timeout: 30_000 });
  await hub.stop();
  await meter.stop();
  ofHub = new Set(namesIn(hubExposition));
}, 120_000);

afterAll(() => rm(directory, { recursive: true, force: true }));

function namesIn(text: string): string[] {
  return [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', kind]) =>
    kind === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  );
}

function metricsOf(expression: string): readonly string[] {
  return expression.match(/\b(?:meterfeed|process|workqueue|nodejs)_\w+/g) ?? [];
}

/** Of a process that an operator is not. */
function isOfHub(alert: string): boolean {
  return alert.startsWith('MeterfeedFleet');
}

describe('alerts', () => {
  test('none waits for a metric that the operator does not have', () => {
    expect(rules.length).toBeGreaterThan(10);
    for (const { alert, expr } of rules) {
      expect(metricsOf(expr), alert).not.toEqual([]);
      const known = isOfHub(alert) ? ofHub : registered;
      for (const metric of metricsOf(expr)) expect([...known], alert).toContain(metric);
    }
  });

  test('a counter by label is not there before its first increase, which Prometheus then does not see', () => {
    for (const series of [
      ...['collector', 'metrics', 'private-nodes', 'resourceslices'].map(
        (source) => `meterfeed_gap_seconds_total{source="${source}"} 0`,
      ),
      ...['lago', 'metronome', 'stripe'].map(
        (provider) =>
          `meterfeed_webhook_messages_total{provider="${provider}",outcome="refused"} 0`,
      ),
    ]) {
      expect(exposition).toContain(`${series}\n`);
    }
  });

  test('about a destination wait for nothing that a hub does not have', () => {
    const perDestination = rules.filter(({ expr }) => expr.includes('(cluster, destination)'));
    expect(perDestination.length).toBeGreaterThan(4);
    for (const { alert, expr } of perDestination) {
      for (const metric of metricsOf(expr)) expect([...ofHub], alert).toContain(metric);
    }
  });

  test('each leads to its page in the runbook', async () => {
    const page = await readFile(ALERTS_PAGE, 'utf8');
    const headings = [...page.matchAll(/^## (\S+)$/gm)].map(([, name]) => name);
    expect(new Set(headings)).toEqual(new Set(rules.map(({ alert }) => alert)));
    for (const { alert, annotations } of rules) {
      expect(annotations['runbook_url']).toMatch(new RegExp(`#${alert.toLowerCase()}$`));
    }
  });

  test('the page of metrics lacks one, or names one that no operator has', async () => {
    const page = await readFile(METRICS_PAGE, 'utf8');
    const listed = [...page.matchAll(/^- `(meterfeed_\w+)` \S/gm)].map(([, name]) => name);
    const exposed = `${exposition}\n${hubExposition}`.matchAll(/^# TYPE (meterfeed_\w+) /gm);
    expect(new Set(listed)).toEqual(new Set([...exposed].map(([, name]) => name)));
  });

  test('Prometheus accepts the rules and the metrics', async () => {
    const file = join(directory, 'rules.yaml');
    await writeFile(file, groups);
    await run('promtool', ['check', 'rules', file]);
    for (const text of [exposition, hubExposition]) {
      const checked = run('promtool', ['check', 'metrics']);
      checked.child.stdin?.end(text);
      expect(await checked).toEqual({ stdout: '', stderr: '' });
    }
  });

  test('one has no case that shows it to fire', () => {
    const tested = new Set([...ALERT_CASES, ...SLOW_CASES].map(({ alert }) => alert));
    expect([...tested].toSorted()).toStrictEqual(rules.map(({ alert }) => alert).toSorted());
  });

  test.each([
    [
      '1m',
      [...ALERT_CASES.map((one) => firing(one)), ruleTest('1m', OLD_COUNTERS, { '150m': [] })],
    ],
    ['5m', SLOW_CASES.map((slow) => firing(slow, '5m'))],
  ])(
    'each fires for what it is about, a series born high included, and no other does (%s)',
    async (every, tests) => {
      const file = join(directory, `cases-${every}.json`);
      await writeFile(join(directory, 'rules.yaml'), groups);
      const complete = { rule_files: ['rules.yaml'], evaluation_interval: every, tests };
      await writeFile(file, JSON.stringify(complete));
      await run('promtool', ['test', 'rules', file]);
    },
    60_000,
  );

  test('a destination that is held, a window that is late and invoices that differ raise theirs, and quiet raises none', async () => {
    const file = join(directory, 'unit.yaml');
    await writeFile(join(directory, 'rules.yaml'), groups);
    await writeFile(file, UNIT_TEST);
    await run('promtool', ['test', 'rules', file]);
  });

  test('a cluster that is silent, not measured or not fed raises its own, and no other cluster does', async () => {
    const file = join(directory, 'fleet.yaml');
    await writeFile(join(directory, 'rules.yaml'), groups);
    await writeFile(file, FLEET_TEST);
    await run('promtool', ['test', 'rules', file]);
  });

  test('a day that stays three days longer than RETENTION, and a destination that fills the volume, raise their own', async () => {
    const file = join(directory, 'days.yaml');
    await writeFile(join(directory, 'rules.yaml'), groups);
    await writeFile(file, DAYS_TEST);
    await run('promtool', ['test', 'rules', file]);
  });
});

function firing({ series, quietAt, firesAt, alert, also = [] }: AlertCase, every = '1m'): object {
  return ruleTest(every, series, { [quietAt]: [], [firesAt]: [alert, ...also] });
}

/** A test of promtool: the names of all alerts that fire at a time, and no others. */
function ruleTest(
  every: string,
  series: AlertCase['series'],
  expected: Readonly<Record<string, readonly string[]>>,
): object {
  const input = { meterfeed_build_info: '1x500', ...series };
  return {
    interval: every,
    input_series: Object.entries(input).map(([name, values]) => ({ series: name, values })),
    promql_expr_test: Object.entries(expected).map(([time, alerts]) => ({
      expr: 'group by (alertname) (ALERTS{alertstate="firing"})',
      eval_time: time,
      exp_samples: alerts.map((name) => ({ labels: `{alertname="${name}"}`, value: 1 })),
    })),
  };
}

test('the Grafana dashboard draws nothing that the operator does not have', async () => {
  const text = await readFile(`${COMPONENT}grafana-dashboard.json`, 'utf8');
  const dashboard = JSON.parse(text) as {
    readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
  };
  const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map((t) => t.expr));
  expect(expressions.length).toBeGreaterThan(10);
  for (const expression of expressions) {
    expect(metricsOf(expression), expression).not.toEqual([]);
    for (const metric of metricsOf(expression)) expect([...registered]).toContain(metric);
  }
});

test('two operators in one Prometheus are drawn as one: the dashboard does not ask which', async () => {
  const text = await readFile(`${COMPONENT}grafana-dashboard.json`, 'utf8');
  const dashboard = JSON.parse(text) as {
    readonly templating: { readonly list: readonly { readonly name: string }[] };
    readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
  };
  const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map((t) => t.expr));
  for (const name of ['cluster', 'namespace']) {
    expect(dashboard.templating.list).toContainEqual(
      expect.objectContaining({ name, multi: true, includeAll: true, allValue: '.*' }),
    );
    for (const expression of expressions) expect(expression).toContain(`${name}=~"$${name}"`);
  }
  const rules = expressions.map((expression, index) => ({
    record: `panel:${index}`,
    expr: expression.replaceAll('$__rate_interval', '5m'),
  }));
  const file = join(directory, 'panels.yaml');
  await writeFile(file, stringify({ groups: [{ name: 'panels', rules }] }));
  await run('promtool', ['check', 'rules', file]);
});

const UNIT_TEST = `
rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: meterfeed_build_info
        values: 1x60
      - series: meterfeed_window_lag_seconds
        values: 0x20 900x40
      - series: meterfeed_leading{pod="a"}
        values: 1x20 0x40
      - series: meterfeed_leading{pod="b"}
        values: 0x60
      - series: meterfeed_destination_blocked{destination="lago"}
        values: 0x20 1x40
      - series: meterfeed_destination_lag_seconds{destination="lago"}
        values: 3x60
      - series: meterfeed_private_node_downtime_exceeded
        values: 0x20 2x40
      - series: meterfeed_private_node_flaps_total
        values: 0x60
      - series: meterfeed_private_node_relabels_total
        values: 0x40 1x20
      - series: meterfeed_unaccounted_gpu_seconds
        values: 0x60
      - series: meterfeed_unattributed_gpu_seconds_total
        values: 0x30 60+0x30
      - series: meterfeed_ledger_standby_missing
        values: 0x20 1x40
    alert_rule_test:
      - { eval_time: 15m, alertname: MeterfeedNoStandby, exp_alerts: [] }
      - eval_time: 45m
        alertname: MeterfeedNoStandby
        exp_alerts:
          - exp_labels: { severity: critical }
            exp_annotations:
              summary: The database has no synchronous standby
              description: "LEDGER_DURABILITY requires one, so nothing is acknowledged: windows wait, pushed usage is refused and nothing is delivered."
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeednostandby
      - { eval_time: 15m, alertname: MeterfeedWindowsLate, exp_alerts: [] }
      - { eval_time: 15m, alertname: MeterfeedNobodyMeters, exp_alerts: [] }
      - eval_time: 25m
        alertname: MeterfeedNobodyMeters
        exp_alerts:
          - exp_labels: { severity: critical }
            exp_annotations:
              summary: No replica meters
              description: "No replica has had the lease for two minutes, so no window is closed. Windows older than MAX_BACKFILL when one gets it will not be billed."
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeednobodymeters
      - { eval_time: 15m, alertname: MeterfeedDestinationBlocked, exp_alerts: [] }
      - { eval_time: 45m, alertname: MeterfeedDeliveryLag, exp_alerts: [] }
      - { eval_time: 15m, alertname: MeterfeedPrivateNodeDowntime, exp_alerts: [] }
      - { eval_time: 15m, alertname: MeterfeedPrivateNodeFlaps, exp_alerts: [] }
      - { eval_time: 15m, alertname: MeterfeedPrivateNodeRelabelled, exp_alerts: [] }
      - eval_time: 45m
        alertname: MeterfeedPrivateNodeDowntime
        exp_alerts:
          - exp_labels: { severity: warning }
            exp_annotations:
              summary: Private nodes report long downtime
              description: Private nodes of 2 tenant clusters reported more downtime in the last day than privateNodeDowntimePercent. Downtime is not billed.
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeedprivatenodedowntime
      - eval_time: 45m
        alertname: MeterfeedPrivateNodeRelabelled
        exp_alerts:
          - exp_labels: { severity: warning }
            exp_annotations:
              summary: A tenant relabelled a private node
              description: Labels of private nodes were changed to another capacity type, GPU model, instance type or SKU, which can change the price.
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeedprivatenoderelabelled
      - { eval_time: 15m, alertname: MeterfeedUnattributedGpuTime, exp_alerts: [] }
      - eval_time: 45m
        alertname: MeterfeedUnattributedGpuTime
        exp_alerts:
          - exp_labels: { severity: warning }
            exp_annotations:
              summary: GPU time is billed to nobody
              description: 60 GPU-seconds of the last half hour were allocated to objects with an unknown owner.
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeedunattributedgputime
      - { eval_time: 45m, alertname: MeterfeedSilent, exp_alerts: [] }
      - { eval_time: 45m, alertname: MeterfeedUnaccountedGpuSeconds, exp_alerts: [] }
      - eval_time: 45m
        alertname: MeterfeedDestinationBlocked
        exp_alerts:
          - exp_labels: { destination: lago, severity: critical }
            exp_annotations:
              summary: A destination needs attention
              description: Nothing is sent to lago until its configuration is fixed.
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeeddestinationblocked
  - interval: 1m
    input_series:
      - series: meterfeed_build_info
        values: 1x120
      - series: meterfeed_destination_invoice_mismatches{destination="lago"}
        values: 0x20 3x100
      - series: meterfeed_budget_threshold_reached_timestamp_seconds{percent="80"}
        values: _x19 1200x100
    alert_rule_test:
      - { eval_time: 15m, alertname: MeterfeedBudgetThreshold, exp_alerts: [] }
      - eval_time: 45m
        alertname: MeterfeedBudgetThreshold
        exp_alerts:
          - exp_labels: { percent: "80", severity: warning }
            exp_annotations:
              summary: A tenant has reached a threshold of its budget
              description: A tenant reached 80 % of its budget 25m 0s ago. A Kubernetes Event on the object with the budget names the tenant.
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeedbudgetthreshold
      - { eval_time: 85m, alertname: MeterfeedBudgetThreshold, exp_alerts: [] }
      - { eval_time: 75m, alertname: MeterfeedInvoiceMismatch, exp_alerts: [] }
      - eval_time: 90m
        alertname: MeterfeedInvoiceMismatch
        exp_alerts:
          - exp_labels: { destination: lago, severity: critical }
            exp_annotations:
              summary: Final invoices differ from the delivered usage
              description: "3 sums on invoices of lago differ from the delivered usage: it is on no invoice or on two."
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeedinvoicemismatch
`;

const DAYS_TEST = `
rule_files: [rules.yaml]
evaluation_interval: 1h
tests:
  - interval: 1h
    input_series:
      - series: meterfeed_ledger_oldest_timestamp_seconds
        values: 0x300
      - series: meterfeed_ledger_retention_seconds
        values: 604800x300
      - series: meterfeed_ledger_segments
        values: 12x300
      - series: meterfeed_destination_volume_full_seconds{destination="lago"}
        values: 2592000-3600x900
      - series: meterfeed_destination_volume_full_seconds{cluster="berlin",destination="lago"}
        values: 2592000x900
    alert_rule_test:
      - { eval_time: 22d, alertname: MeterfeedDestinationFillsVolume, exp_alerts: [] }
      - eval_time: 25d
        alertname: MeterfeedDestinationFillsVolume
        exp_alerts:
          - exp_labels: { destination: lago, severity: critical }
            exp_annotations:
              summary: Events that wait for a destination fill the ledger's volume
              description: The volume is full in 5d 0h 0m 0s if lago receives nothing until then. Windows wait while it is full.
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeeddestinationfillsvolume
      # Seven days of RETENTION, and the day or two that a day takes to be over.
      - { eval_time: 9d, alertname: MeterfeedRetentionBehind, exp_alerts: [] }
      - eval_time: 12d
        alertname: MeterfeedRetentionBehind
        exp_alerts:
          - exp_labels: { severity: warning }
            exp_annotations:
              summary: Old events are not deleted
              description: "The oldest day or segment is 5d 0h 0m 0s older than RETENTION: a destination has not received it, or the database does not drop it."
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeedretentionbehind
`;

// Of two replicas of a hub, one of which cannot reach the database for a while.
const FLEET_TEST = `
rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: meterfeed_build_info
        values: 1x90
      - series: meterfeed_fleet_meter_silent_seconds{cluster="berlin",instance="a"}
        values: 3x20 0+60x40
      - series: meterfeed_fleet_meter_silent_seconds{cluster="berlin",instance="b"}
        values: 3x90
      - series: meterfeed_fleet_meter_silent_seconds{cluster="paris",instance="a"}
        values: 3x20 0+60x40
      - series: meterfeed_fleet_meter_silent_seconds{cluster="paris",instance="b"}
        values: 3x20 60+60x40
      - series: meterfeed_fleet_problems{instance="a"}
        values: 0x20 1x40
      - series: meterfeed_fleet_problems{instance="b"}
        values: 0x60
      - series: meterfeed_fleet_gap_seconds{cluster="berlin"}
        values: 3600x60
      - series: meterfeed_fleet_gap_seconds{cluster="paris"}
        values: 60x30 120x20
      - series: meterfeed_destination_lag_seconds{cluster="berlin",destination="lago"}
        values: 3x20 200x40
      - series: meterfeed_destination_lag_seconds{cluster="paris",destination="lago"}
        values: 3x20 200x40
      - series: meterfeed_destination_lag_seconds{cluster="rome",destination="lago"}
        values: 3x60
      - series: meterfeed_destination_lag_seconds{cluster="paris",destination="webhook"}
        values: 200x60
      - series: meterfeed_destination_lag_seconds{cluster="rome",destination="webhook"}
        values: 3x60
    alert_rule_test:
      - { eval_time: 15m, alertname: MeterfeedFleetMeterSilent, exp_alerts: [] }
      - { eval_time: 15m, alertname: MeterfeedFleetUnread, exp_alerts: [] }
      - { eval_time: 15m, alertname: MeterfeedFleetBehind, exp_alerts: [] }
      - { eval_time: 15m, alertname: MeterfeedFleetGaps, exp_alerts: [] }
      - eval_time: 30m
        alertname: MeterfeedFleetMeterSilent
        exp_alerts:
          - exp_labels: { cluster: paris, severity: critical }
            exp_annotations:
              summary: The meter of a cluster reports nothing
              description: "The meter of paris has reported nothing for 9m 0s, so its usage is not billed. Windows older than its MAX_BACKFILL when it returns will not be billed."
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeedfleetmetersilent
      - eval_time: 30m
        alertname: MeterfeedFleetUnread
        exp_alerts:
          - exp_labels: { severity: critical }
            exp_annotations:
              summary: A hub cannot read all streams
              description: 1 databases or streams cannot be read by a hub. If no replica can read them, their events are not delivered.
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeedfleetunread
      - eval_time: 35m
        alertname: MeterfeedFleetBehind
        exp_alerts:
          - exp_labels: { destination: lago, severity: warning }
            exp_annotations:
              summary: The hub does not keep up
              description: "lago is more than two minutes behind for 2 clusters, more than half of all. Nothing is lost: events wait in the ledger."
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeedfleetbehind
      - eval_time: 40m
        alertname: MeterfeedFleetGaps
        exp_alerts:
          - exp_labels: { cluster: paris, severity: warning }
            exp_annotations:
              summary: Something could not be measured in a cluster
              description: 1m 0s could not be measured in paris. This time is not billed unless it can be measured later.
              runbook_url: https://meterfeed.io/docs/reference/alerts#meterfeedfleetgaps
`;
