import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { createKubectl, type Kubectl } from '../control-plane/kubectl.ts';
import { manifest, webhookDestination } from '../local/custom-resources.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { endRun, type RunProcess, startRun } from '../local/testing/run-process.ts';
import { livingProcess, signalProcess } from '../processes/pid-file.ts';
import { type Receiver, type ReceiverStats, startReceiver } from '../receiver/receiver.ts';
import { TENANT_CLUSTERS } from '../simulator/cloud.ts';
import { FORGE, RELIC } from '../simulator/private-nodes.ts';
import { readTruth } from '../simulator/truth.ts';
import { measuredFrom, type Outage, wronglyBilled } from './billed-seconds.ts';
import { missingWindows, readReceived, repeatedIds } from './received.ts';

const WINDOW_MS = 10_000;
/** A window, its settling delay and the time to close it. */
const JOURNAL_AGE_MS = 15_000;
/** The end of a window, its settling delay, delivery, and a busy machine. */
const WITHIN_A_WINDOW_MS = WINDOW_MS + 10_000;
/** Status numbers move at most once a minute. */
const STATUS_MS = 80_000;

const TENANTS = [...new Set(TENANT_CLUSTERS.map(({ tenant }) => tenant))].toSorted();
const ALL_TENANTS = [...TENANTS, FORGE.tenant, RELIC.tenant].toSorted();
const FIVE_METRICS = [
  'tenant_cpu_core_hours',
  'tenant_instance_hours',
  'tenant_lb_hours',
  'tenant_memory_gb_hours',
  'tenant_storage_gb_hours',
];

/** Issue "The main job runs", from `make run` to the billed seconds of single pods. The tests build on each other. */
describe('the main job', () => {
  let files: RunFiles;
  let run: RunProcess;
  let kubectl: Kubectl;
  let second: Receiver;
  let outage: Outage | undefined;
  const secondFile = (): string => join(files.directory, 'second.ndjson');

  const startAndWait = async (): Promise<void> => {
    run = startRun(files);
    await run.ready;
  };

  beforeAll(async () => {
    files = runFiles(await mkdtemp(join(tmpdir(), 'main-job-')));
    await startAndWait();
    kubectl = createKubectl(files.kubectl, files.kubeconfig);
    second = await startReceiver({ file: secondFile(), secret: 'second-secret', port: 0 });
  });
  afterAll(async () => {
    await second?.stop();
    await endRun(files);
    if (process.env['KEEP_RUN'] === undefined) {
      await rm(files.directory, { recursive: true, force: true });
    }
  });

  const api = async (path: string): Promise<Record<string, unknown>> => {
    const address = readFileSync(files.address, 'utf8').trim();
    const authorization = `Bearer ${readFileSync(files.apiToken, 'utf8').trim()}`;
    const response = await fetch(`${address}${path}`, { headers: { authorization } });
    expect({ path, status: response.status }).toEqual({ path, status: 200 });
    return (await response.json()) as Record<string, unknown>;
  };

  const receiverStats = async (): Promise<ReceiverStats> => {
    const port = readFileSync(files.receiverPort, 'utf8').trim();
    return (await (await fetch(`http://127.0.0.1:${port}/`)).json()) as ReceiverStats;
  };

  const lastWindow = (): number =>
    Math.max(...readReceived(files.received).map(({ window_end }) => Date.parse(window_end)));

  const windowsPass = async (count: number): Promise<void> => {
    const until = lastWindow() + count * WINDOW_MS;
    await vi.waitFor(() => expect(lastWindow()).toBeGreaterThanOrEqual(until), {
      timeout: (count + 3) * WINDOW_MS,
      interval: 500,
    });
  };

  test('within two windows every tenant has rows of the five metrics', async () => {
    await vi.waitFor(
      async () => {
        const usage = await api('/api/v1/usage?group_by=tenant');
        const rows = usage['rows'] as readonly { tenant: string; metric: string }[];
        expect([...new Set(rows.map(({ tenant }) => tenant))].toSorted()).toEqual(ALL_TENANTS);
        for (const tenant of TENANTS) {
          const metrics = rows.filter((row) => row.tenant === tenant).map(({ metric }) => metric);
          expect({ tenant, metrics }).toEqual({
            tenant,
            metrics: expect.arrayContaining(FIVE_METRICS) as unknown,
          });
        }
      },
      { timeout: 2 * WINDOW_MS + WITHIN_A_WINDOW_MS, interval: 1_000 },
    );
  });

  test('the receiver gets every window once, each event under an id of its own', async () => {
    await vi.waitFor(() => expect(existsSync(files.received)).toBe(true), WITHIN_A_WINDOW_MS);
    const before = await receiverStats();
    await windowsPass(3);
    const after = await receiverStats();
    expect(after.batches - before.batches).toBeGreaterThanOrEqual(3);
    expect(after).toMatchObject({ duplicates: 0, conflicts: 0, refused: 0 });
    const events = readReceived(files.received);
    expect(repeatedIds(events)).toEqual([]);
    expect(missingWindows(events, WINDOW_MS)).toEqual([]);
  });

  test('the API shows the destinations that cannot start as kubectl does', async () => {
    const reason = '.status.conditions[?(@.type=="Ready")].reason';
    const path = `jsonpath={range .items[*]}{.metadata.name} {${reason}}{"\\n"}{end}`;
    await vi.waitFor(async () => {
      const shown = (await kubectl(['get', 'billingdestinations', '--output', path])).trim();
      const { destinations } = (await api('/api/v1/destinations')) as {
        destinations: readonly { name: string; problem?: { reason: string } }[];
      };
      const reported = destinations.map(
        ({ name, problem }) => `${name} ${problem?.reason ?? 'Delivering'}`,
      );
      expect(reported.toSorted()).toEqual(shown.split('\n').toSorted());
      expect(reported).toContain('lago SecretNotFound');
    }, STATUS_MS);
  });

  test('kubectl shows readiness, tenants and lag', async () => {
    await vi.waitFor(
      async () => {
        const table = await kubectl([
          'get',
          'meteringpolicies,billingdestinations,tenantoverrides',
        ]);
        expect(table).toMatch(/billingdestination\S*\/local-receiver\s+True\s+webhook/);
        expect(table).toMatch(/tenantoverride\S*\/burst\s+True/);
        expect(table).toMatch(/meteringpolic\S*\/default\s+True/);
        const policy = await status('meteringpolicy', 'default');
        expect(policy['tenants']).toBe(ALL_TENANTS.length);
        expect(await status('billingdestination', 'local-receiver')).toHaveProperty('lag');
        expect(await status('tenantoverride', 'burst')).toMatchObject({ matched: { total: 1 } });
      },
      { timeout: STATUS_MS, interval: 2_000 },
    );
  });

  test('a tenant that pays beforehand is stopped when its balance is used up', async () => {
    await vi.waitFor(() => expect(run.output()).toContain('is suspended: "trial"'), {
      timeout: 150_000,
      interval: 1_000,
    });
    expect(run.output()).toContain('/portal#token=');
    const answer = await api('/api/v1/tenants/trial/credits');
    expect(answer['balances']).toMatchObject([{ credited: '0.1', currency: 'EUR' }]);
    expect(await api('/api/v1/tenants/trial')).toMatchObject({ billing_state: 'suspended' });
  }, 180_000);

  test('a second webhook destination is delivered to within a window', async () => {
    const objects = webhookDestination('second', { url: second.url, secret: 'second-secret' });
    await kubectl(['apply', '-f', '-'], manifest(objects));
    await vi.waitFor(() => expect(second.stats().accepted).toBeGreaterThan(0), {
      timeout: WITHIN_A_WINDOW_MS,
      interval: 250,
    });
    await windowsPass(1);
    await vi.waitFor(() => expect(ids(secondFile())).toEqual(ids(files.received)), {
      timeout: WITHIN_A_WINDOW_MS,
      interval: 500,
    });
    expect(second.stats()).toMatchObject({ conflicts: 0, refused: 0 });
  });

  test('a kill -9 of the operator, which is started again, loses no window and repeats no id', async () => {
    kill(files.operatorPid);
    await vi.waitFor(() => expect(run.output()).toContain('the operator is ready again'), {
      timeout: 60_000,
      interval: 250,
    });
    expect(run.output()).toContain('the operator ended (signal SIGKILL)');
    await nothingIsLost();
  });

  test('a kill -9 of all of make run and another make run lose no window and repeat no id', async () => {
    // What was seen since the last journal, written with each window, dies with the process; and the
    // API server, which restarts too, no longer tells it.
    const from = Date.now() - JOURNAL_AGE_MS;
    kill(files.runPid);
    kill(files.operatorPid);
    expect(await run.exited).toBe(null);
    await startAndWait();
    outage = { from, to: Date.now() };
    await nothingIsLost();
  });

  test('every pod that came and went is billed for finishedAt − startedAt, to the second', async () => {
    const ended = readTruth(files.truth);
    await windowsPass(3);
    const events = readReceived(files.received);
    const pods = ended.filter(
      ({ namespace, startedAt }) =>
        namespace === 'tenant-burst' && Date.parse(startedAt) >= measuredFrom(events),
    );
    expect(pods.length).toBeGreaterThan(20);
    const { exact, unseen } = wronglyBilled(pods, events, outage);
    expect(exact).toEqual([]);
    expect(unseen).toEqual([]);
  });

  async function nothingIsLost(): Promise<void> {
    await windowsPass(3);
    const events = readReceived(files.received);
    expect(repeatedIds(events)).toEqual([]);
    for (const tenant of TENANTS) {
      const instances = events.filter(
        (event) => event.tenant === tenant && event.metric === 'tenant_instance_hours',
      );
      const missing = missingWindows(instances, WINDOW_MS);
      expect({ tenant, missing }).toEqual({ tenant, missing: [] });
    }
    expect((await receiverStats()).conflicts).toBe(0);
    await vi.waitFor(() => expect(ids(secondFile())).toEqual(ids(files.received)), {
      timeout: WITHIN_A_WINDOW_MS,
      interval: 500,
    });
  }

  function kill(pidFile: string): void {
    const pid = livingProcess(pidFile);
    if (pid === undefined) throw new Error(`no process: ${pidFile}: ${run.output()}`);
    signalProcess(pid, 'SIGKILL');
  }

  async function status(kind: string, name: string): Promise<Record<string, unknown>> {
    const object = JSON.parse(await kubectl(['get', kind, name, '-o', 'json'])) as {
      readonly status?: Record<string, unknown>;
    };
    return object.status ?? {};
  }
});

function ids(file: string): readonly string[] {
  return readReceived(file)
    .map(({ id }) => id)
    .toSorted();
}
