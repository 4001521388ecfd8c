import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pLimit from 'p-limit';
import { createRandom } from '../faults/random.ts';
import { clusterOf, type RunPlan } from './attacks/attack.ts';
import { customResourcesOf } from './attacks/custom-resources.ts';
import { FORGED_CONTROL_PLANE } from './attacks/forged-control-planes.ts';
import { HOST_ATTACKS } from './attacks/host.ts';
import { TRIGGER_ATTACK } from './attacks/host-objects.ts';
import type { PartyOrder } from './attacks/hostile-party.ts';
import { honestKubeconfig, KUBECONFIG_ATTACKS } from './attacks/kubeconfigs.ts';
import { Balances } from './observer/balances.ts';
import { Bills } from './observer/bills.ts';
import { holdDeliveries } from './observer/deliveries.ts';
import { Outputs } from './observer/outputs.ts';
import { waitedMs } from './observer/processor-time.ts';
import { Stalls } from './observer/stalls.ts';
import { compareBill } from './observer/truth.ts';
import { type Failure, type Totals, Decision } from './observer/evaluation.ts';
import { type Stage, startStage } from './stage.ts';
import { override, PREPAID, type Put, tenantCluster, tenantOf } from './world/honest-estate.ts';
import { Jobs } from './world/jobs.ts';
import { kubeconfigSecret } from './world/objects.ts';

export interface SuiteOptions {
  /** Runs that are under way together, in one window. */
  readonly jobs: number;
  /** Waves from one restart of the operator to the next. */
  readonly restartEvery: number;
  readonly plant?: string;
  readonly failed: (failure: Failure) => void;
  /** Told after each wave: of how many runs, and what was seen so far. */
  readonly progress: (totals: Totals) => void;
}

export interface SuiteResult {
  readonly totals: Totals;
  readonly memoryLimitMiB: number;
}

const WINDOW_SECONDS = 10;
const WINDOW_MS = WINDOW_SECONDS * 1000;
/** Of the operator, by default. */
const SETTLING_MS = 3_000;
/** A window that is billed later than this after it could be is late. */
const LATE_MS = 5_000;
const BASELINE_MS = 90_000;
/** Moments of a wave, from the beginning of its window. */
const MOMENTS = { begin: 300, job: 2_000, restart: 5_000, end: 5_500, jobEnd: 7_000 } as const;
const POLL_MS = 500;
const CREDIT_MS = 2_000;
const MOST_STARTS = 3;

/** Lets plans attack one operator, wave by wave, and says what came of it. */
export async function runSuite(
  plans: readonly RunPlan[],
  options: SuiteOptions,
): Promise<SuiteResult> {
  const directory = await mkdtemp(join(tmpdir(), 'hostile-'));
  const active = new Set<number>();
  const decision = new Decision(() => [...active].toSorted((a, b) => a - b), options.failed);
  const stage = await startStage({
    directory,
    windowSeconds: WINDOW_SECONDS,
    decision,
    plant: options.plant,
  });
  const suite = new Suite(stage, decision, active, options);
  try {
    await suite.run(plans);
    return {
      totals: decision.totals(plans.length, stage.operator.peakMiB()),
      memoryLimitMiB: stage.operator.memoryLimitMiB,
    };
  } finally {
    await stage.stop();
    if (process.env['HOSTILE_KEEP'] === undefined) {
      await rm(directory, { recursive: true, force: true });
    }
  }
}

class Suite {
  readonly #stage: Stage;
  readonly #decision: Decision;
  readonly #active: Set<number>;
  readonly #options: SuiteOptions;
  readonly #bills: Bills;
  readonly #balances: Balances;
  readonly #outputs: Outputs;
  /** A planned restart and one after an accident do not meet. */
  readonly #oneStart = pLimit(1);
  readonly #jobs: Jobs;
  readonly #stalls = new Stalls();
  #done = 0;
  #isSettled = false;
  #isOver = false;

  constructor(stage: Stage, decision: Decision, active: Set<number>, options: SuiteOptions) {
    this.#stage = stage;
    this.#decision = decision;
    this.#active = active;
    this.#options = options;
    this.#jobs = new Jobs(stage.world);
    this.#outputs = new Outputs(stage.needles, decision, stage.operator.logFile);
    const common = {
      address: stage.operator.address,
      token: stage.secrets.apiToken,
      decision,
      isUp: () => stage.operator.isUp,
    };
    this.#bills = new Bills({
      ...common,
      tenants: stage.estate.tenants,
      charges: () => [...stage.estate.charges, ...this.#jobs.charges()],
      waitedMs: () => waitedMs(stage.operator.pid),
    });
    this.#balances = new Balances({
      ...common,
      tenant: tenantOf(PREPAID.name),
      metric: PREPAID.metric,
      charges: stage.estate.charges,
    });
  }

  async run(plans: readonly RunPlan[]): Promise<void> {
    await this.#start();
    await this.#awaitHonestBill();
    await this.#revoke();
    this.#stage.operator.takeStalls();
    const looking = this.#pollOn();
    const crediting = this.#creditOn();
    const { jobs, restartEvery } = this.#options;
    const waves = Math.ceil(plans.length / jobs);
    let before: readonly RunPlan[] = [];
    // One wave more than there are attacks, in which the last ones bear on a window's end.
    for (let wave = 0; wave <= waves; wave += 1) {
      const now = plans.slice(wave * jobs, (wave + 1) * jobs);
      const isRestart = wave === waves || wave % restartEvery === restartEvery - 1;
      await this.#wave(now, before, isRestart ? restartSignal(wave, restartEvery) : undefined);
      this.#done += before.length;
      before = now;
      this.#options.progress(this.#decision.totals(this.#done, this.#stage.operator.peakMiB()));
    }
    await this.#settle();
    this.#isSettled = true;
    await crediting;
    this.#isOver = true;
    await looking;
    await holdDeliveries(this.#stage.received, this.#bills.verified, this.#decision);
    this.#outputs.pollAtLog();
  }

  /** One window: new attacks begin, and those of the window before end when they have met its closing. */
  async #wave(
    now: readonly RunPlan[],
    before: readonly RunPlan[],
    restart: 'SIGTERM' | 'SIGKILL' | undefined,
  ): Promise<void> {
    const start = Math.ceil(Date.now() / WINDOW_MS) * WINDOW_MS;
    const window = { start, end: start + WINDOW_MS };
    this.#bills.expect(window, window.end + SETTLING_MS + LATE_MS);
    await until(start + MOMENTS.begin);
    for (const { run } of now) this.#active.add(run);
    await this.#stage.world.order({ fromClients: now.flatMap((plan) => this.#putsOf(plan)) });
    await this.#orderParty({ begin: now });
    await until(start + MOMENTS.job);
    await this.#jobs.begin();
    await until(start + MOMENTS.restart);
    if (restart !== undefined) await this.#oneStart(() => this.#restart(restart));
    await until(start + MOMENTS.end);
    await this.#endRuns(before.map(({ run }) => run));
    await until(start + MOMENTS.jobEnd);
    await this.#jobs.end();
    await this.#pollAround();
    await until(window.end - 50);
  }

  #putsOf({ run, attacks }: RunPlan): readonly Put[] {
    const name = clusterOf(run);
    const means = this.#stage.kubeconfigMeans(run);
    const [bad] = attacks.filter(({ kind }) => kind === 'kubeconfig');
    const made = KUBECONFIG_ATTACKS.find((attack) => attack.name === bad?.name);
    const text = made?.make(createRandom(bad?.seed ?? 0), means) ?? honestKubeconfig(means);
    const byUse = createRandom(run).chance(0.5);
    const hostPuts = attacks.flatMap(({ kind, name: called, seed }) => {
      if (kind !== 'host') return [];
      const attack = [...HOST_ATTACKS, TRIGGER_ATTACK].find((each) => each.name === called);
      return attack?.make(createRandom(seed), name) ?? [];
    });
    const path = `/api/v1/namespaces/${name}/secrets/svc-kubeconfig`;
    return [
      { api: 'host', path, object: kubeconfigSecret(text) },
      ...(byUse ? [override(name, { privateNodeBilling: 'usage', cpuMemoryBasis: 'usage' })] : []),
      ...tenantCluster(name, Date.now() - 60_000),
      ...hostPuts,
    ];
  }

  /** Starts it again and again; when it does not stay up with what the hostile have done, without that. */
  async #start(): Promise<void> {
    const { operator, probes } = this.#stage;
    for (let left = 2 * MOST_STARTS; left > 0; left -= 1) {
      if (left === MOST_STARTS) await this.#endRuns([...this.#active]);
      if (await operator.start()) {
        await probes.report(operator.pid ?? 'down');
        this.#bills.excuse(Date.now() + SETTLING_MS + LATE_MS);
        return;
      }
    }
    throw new Error(`hostile: the operator does not start any more; see ${operator.logFile}`);
  }

  async #restart(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const { operator, probes } = this.#stage;
    await probes.report('down');
    await operator.stop(signal);
    await this.#start();
  }

  /** After an accident, unless that has been done meanwhile. */
  async #startAgain(): Promise<void> {
    if (this.#stage.operator.hasEnded) await this.#start();
  }

  /** Their attacks end, and their tenant clusters are no more. */
  async #endRuns(runs: readonly number[]): Promise<void> {
    await this.#orderParty({ end: runs });
    const names = runs.map(clusterOf);
    const own = names.flatMap((name) => [override(name, {}).path, ...customResourcesOf(name)]);
    const deletions = [...own, FORGED_CONTROL_PLANE];
    await this.#stage.world.order({ namespaces: names, deletions });
    for (const run of runs) this.#active.delete(run);
  }

  /** The hostile tenant's token that is over before its time. */
  async #revoke(): Promise<void> {
    const { operator, secrets, revoked } = this.#stage;
    const path = `/api/v1/tenants/${revoked.tenant}/portal-tokens/${revoked.id}`;
    const { status } = await fetch(`${operator.address}${path}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${secrets.apiToken}` },
    });
    if (status !== 200) throw new Error(`hostile: a token was not revoked: HTTP ${status}`);
  }

  /** Credits the tenant that pays beforehand all the time, through attacks and restarts. */
  async #creditOn(): Promise<void> {
    while (!this.#isSettled) {
      await this.#balances.credit();
      await delay(CREDIT_MS);
    }
    await this.#balances.poll();
  }

  /** Watches the operator all the time: bills, probes, stalls; starts it again when it has ended. */
  async #pollOn(): Promise<void> {
    const { operator, probes, witness } = this.#stage;
    while (!this.#isOver) {
      if (operator.isUp) await this.#bills.verify(Date.now());
      const { unanswered } = await probes.take();
      for (const what of unanswered) {
        if (operator.isUp) this.#decision.fail('starved', `probe ${what}`);
      }
      const reported = operator.takeStalls();
      const worst = this.#stalls.take(reported, await witness.take());
      if (this.#decision.stall(worst)) {
        const { late = 0, ran = 0, collected = 0 } = worst.longest ?? {};
        const [own, raw, busy, garbage] = [worst.own, late, ran, collected].map(Math.round);
        const parts = `${raw} ms with the machine’s part: ran ${busy} ms, collected garbage ${garbage} ms`;
        console.error(`stall of ${own} ms (${parts}), runs ${[...this.#active].join(', ')}`);
      }
      if (operator.hasEnded) {
        await probes.report('down');
        await this.#oneStart(() => this.#startAgain());
      }
      await delay(POLL_MS);
    }
  }

  /** Whatever is asked of the hostile party, its answer has what it has seen since the last one. */
  async #orderParty(order: Omit<PartyOrder, 'id'>): Promise<void> {
    const { leaks, misbilled } = await this.#stage.party.order(order);
    for (const leak of leaks) this.#decision.fail('leaked', leak);
    for (const what of misbilled) this.#decision.fail('misbilled', what);
  }

  /** What the operator has said to everybody, and what the hostile party has seen. */
  async #pollAround(): Promise<void> {
    const { world, operator, secrets } = this.#stage;
    const { written } = await world.order({});
    for (const text of written) this.#outputs.poll('what it writes into the host’s API', text);
    await this.#orderParty({});
    this.#outputs.pollAtLog();
    if (operator.isUp) await this.#outputs.pollAtApi(operator.address, secrets.apiToken);
  }

  /** Until one window is billed as it must be: attacks are held against a bill that is right without them. */
  async #awaitHonestBill(): Promise<void> {
    const { estate } = this.#stage;
    const deadline = Date.now() + BASELINE_MS;
    let problem = '';
    while (Date.now() < deadline) {
      const end = Math.floor((Date.now() - SETTLING_MS) / WINDOW_MS) * WINDOW_MS;
      const window = { start: end - WINDOW_MS, end };
      const events = await this.#bills.events(window);
      const reported = Array.isArray(events) ? events : [];
      const { missing, wrong } = compareBill(reported, estate.charges, estate.tenants, window);
      if (missing.length + wrong.length === 0) return;
      problem = [...missing.map((what) => `${what}: missing`), ...wrong].join('; ');
      await delay(POLL_MS);
    }
    throw new Error(`hostile: the bill is wrong without any attack: ${problem}`);
  }

  /** Until every window has been verified. */
  async #settle(): Promise<void> {
    const deadline = Date.now() + WINDOW_MS + SETTLING_MS + LATE_MS + BASELINE_MS;
    while (this.#bills.pending > 0 && Date.now() < deadline) await delay(POLL_MS);
    for (let left = this.#bills.pending; left > 0; left -= 1) {
      this.#decision.fail('misbilled', 'a window was never billed');
    }
  }
}

/** In turns. */
function restartSignal(wave: number, every: number): 'SIGTERM' | 'SIGKILL' {
  return Math.floor(wave / every) % 2 === 0 ? 'SIGKILL' : 'SIGTERM';
}

async function until(time: number): Promise<void> {
  await delay(Math.max(0, time - Date.now()));
}

/** The lines of failures, for people. */
export function describeFailure({ kind, what, runs }: Failure, seed: number): string {
  const replays = runs.map((run) => `--seed ${seed} --run ${run}`).join(', ');
  return `${kind}: ${what}\n  under way: ${replays || 'nothing'}`;
}
