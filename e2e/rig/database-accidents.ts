import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../faults/random.ts';
import { until } from '../processes/until.ts';
import type { Scene } from './scene.ts';

const SECOND = 1_000;
/** Longer than two windows and the settling delay. */
const PATIENCE = { patienceMs: 40 * SECOND, lookMs: 20 };

/** Ends some of the sessions of both processes, now and then, for twenty seconds. */
export async function terminateSessions(scene: Scene, random: Random): Promise<void> {
  const end = performance.now() + 20 * SECOND;
  while (performance.now() < end) {
    const share = random.between(30, 100) / 100;
    await query(
      scene,
      `select pg_terminate_backend(pid) from ${sessions(scene)} and random() < ${share}`,
    );
    await delay(random.between(100, 2 * SECOND));
  }
}

/** No statement may take longer than a moment, for twenty seconds. */
export async function statementTimeouts(scene: Scene, random: Random): Promise<void> {
  const ms = random.between(1, 8);
  await withSetting(scene, `statement_timeout = ${ms}`, 'statement_timeout', () =>
    delay(20 * SECOND),
  );
}

/** Every transaction may only read, as on a server that has become a standby, for twenty seconds. */
export async function readOnly(scene: Scene): Promise<void> {
  await withSetting(
    scene,
    'default_transaction_read_only = on',
    'default_transaction_read_only',
    () => delay(20 * SECOND),
  );
}

/**
 * Lets something happen while a transaction waits to be committed: the standbys get nothing, so that the next batch
 * is written and not confirmed.
 */
export async function uncommitted(scene: Scene, meanwhile: () => Promise<void>): Promise<void> {
  const { trio } = scene.world;
  await trio.isolate();
  try {
    const waits = async (): Promise<boolean> =>
      (await query(scene, `select from ${sessions(scene)} and wait_event = 'SyncRep'`)).length > 0;
    await until(waits, 'rig: no transaction waits for a standby', PATIENCE);
    await meanwhile();
  } finally {
    await trio.attach();
  }
}

/** New sessions of the database have a setting, and there are no old ones, until something has ended. */
async function withSetting(
  scene: Scene,
  setting: string,
  name: string,
  meanwhile: () => Promise<void>,
): Promise<void> {
  const renew = `select pg_terminate_backend(pid) from ${sessions(scene)}`;
  await query(scene, `alter database ${scene.database} set ${setting}`);
  await query(scene, renew);
  await meanwhile();
  await query(scene, `alter database ${scene.database} reset ${name}`);
  await query(scene, renew);
}

/** Those of the processes: nobody else uses their database. */
function sessions({ database }: Scene): string {
  return `pg_stat_activity where datname = '${database}'`;
}

function query(scene: Scene, text: string): Promise<readonly Record<string, unknown>[]> {
  return scene.world.trio.primary().query(text);
}
