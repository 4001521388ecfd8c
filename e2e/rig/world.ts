import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  startEphemeralControlPlane,
  type EphemeralControlPlane,
} from '../control-plane/ephemeral.ts';
import { createKubectl } from '../control-plane/kubectl.ts';
import { applyCustomResources, OPERATOR_NAMESPACE } from '../local/custom-resources.ts';
import { startTrio, type Trio } from '../postgres/trio.ts';
import { createApiClient } from '../simulator/api-client.ts';
import { BURST_REQUESTS, TENANT_CLUSTERS, tenantClusterId } from '../simulator/cloud.ts';
import type { ObjectMeta } from '../simulator/objects.ts';
import { letRun, podObject } from '../simulator/pods.ts';
import { startSimulator, type Simulator } from '../simulator/simulator.ts';
import { syncedMeta } from '../simulator/synced.ts';
import { type PodTruth, readTruth } from '../simulator/truth.ts';
import { Recorder } from './recorder.ts';
import { BURST, STEADY } from './truth.ts';

/** Of the two processes. */
export const POD_NAMES = ['meterfeed-a', 'meterfeed-b'] as const;

/**
 * What all runs share: a kube-apiserver in which the simulator plays a GPU cloud, a PostgreSQL primary with two standbys of which
 * one has every commit, and a receiver.
 */
export interface World {
  readonly plane: EphemeralControlPlane;
  readonly trio: Trio;
  readonly recorder: Recorder;
  readonly directory: string;
  /** When the youngest of the pods that never end began, milliseconds since the epoch. */
  readonly bornAt: number;
  /** Pods that ended so far. */
  ended(): readonly PodTruth[];
  /** A new, empty database; its name. */
  createDatabase(): Promise<string>;
  close(): Promise<void>;
}

export async function startWorld(log: (line: string) => void): Promise<World> {
  const directory = await mkdtemp(join(tmpdir(), 'rig-'));
  const plane = await startEphemeralControlPlane();
  const trio = await startTrio({ ownGroup: true });
  const recorder = await Recorder.start();
  const kubectl = createKubectl(plane.kubectl, plane.kubeconfigPath);
  await applyCustomResources(kubectl, {
    url: recorder.url,
    secret: randomBytes(16).toString('hex'),
  });
  const truthFile = join(directory, 'truth.ndjson');
  const simulator = await startSimulator({ credentials: plane.credentials, truthFile, log });
  await runLastingPods(plane);
  const bornAt = Date.now();
  return {
    plane,
    trio,
    recorder,
    directory,
    bornAt,
    ended: () => readTruth(truthFile),
    createDatabase: async () => {
      // Unlike the servers' own names, none of these comes again after a promotion.
      const name = `rig_${randomBytes(4).toString('hex')}`;
      await trio.primary().query(`create database ${name} template template0`);
      return name;
    },
    close: () => closeAll(simulator, plane, trio, recorder, directory),
  };
}

async function closeAll(
  simulator: Simulator,
  plane: EphemeralControlPlane,
  trio: Trio,
  recorder: Recorder,
  directory: string,
): Promise<void> {
  await simulator.stop();
  await plane.stop();
  await trio.close();
  await recorder.close();
  if (process.env['KEEP_RUN'] === undefined) {
    await rm(directory, { recursive: true, force: true });
  }
}

/**
 * Pods that run as long as the world: one of the tenant cluster `burst`, so that every second has one, and those that the two
 * processes stand for, which a leader may put its label on.
 */
async function runLastingPods({ credentials }: EphemeralControlPlane): Promise<void> {
  const burst = TENANT_CLUSTERS.find((cluster) => tenantClusterId(cluster) === BURST);
  if (burst === undefined) throw new Error(`rig: no such tenant cluster: "${BURST}"`);
  const api = createApiClient(credentials, AbortSignal.timeout(30_000));
  const run = async (metadata: ObjectMeta): Promise<void> => {
    const { object } = await api.ensure(podObject(metadata, 'cpu-2', BURST_REQUESTS, 'Always'));
    await letRun(api, object, Date.now);
  };
  await run(syncedMeta(burst, STEADY, STEADY));
  for (const name of POD_NAMES) await run({ name, namespace: OPERATOR_NAMESPACE });
  await api.close();
}
