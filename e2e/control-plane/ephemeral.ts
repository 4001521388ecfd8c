import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { livingProcess, rememberProcess } from '../processes/pid-file.ts';
import { findBinaries } from './binaries.ts';
import {
  type ControlPlane,
  type ControlPlaneOptions,
  endLeftovers,
  startControlPlane,
} from './control-plane.ts';

export type EphemeralOptions = Pick<ControlPlaneOptions, 'audit' | 'apiServerFlags' | 'etcdFlags'>;

export interface EphemeralControlPlane extends ControlPlane {
  readonly directory: string;
  readonly kubectl: string;
}

const PREFIX = 'meterfeed-control-plane-';

/**
 * A control plane in a temporary directory, gone without trace after {@link ControlPlane.stop}. First
 * clears away those whose owners were killed.
 */
export async function startEphemeralControlPlane(
  options: EphemeralOptions = {},
): Promise<EphemeralControlPlane> {
  await sweep();
  const binaries = await findBinaries({
    assets: process.env['KUBEBUILDER_ASSETS'],
    progress: (line) => process.stderr.write(`[control plane] ${line}\n`),
  });
  const directory = await mkdtemp(join(tmpdir(), PREFIX));
  rememberProcess(join(directory, 'owner.pid'), process.pid);
  const remove = (): Promise<void> => rm(directory, { recursive: true, force: true });
  try {
    const plane = await startControlPlane({ ...options, binaries, directory, ephemeral: true });
    const stop = async (): Promise<void> => {
      await plane.stop();
      await remove();
    };
    return { ...plane, directory, kubectl: binaries.kubectl, stop };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function sweep(): Promise<void> {
  const names = await readdir(tmpdir());
  for (const name of names.filter((each) => each.startsWith(PREFIX))) {
    const directory = join(tmpdir(), name);
    const entries = await readdir(directory).catch((): string[] => []);
    // Without the owner's file it is being made at this moment.
    if (!entries.includes('owner.pid')) continue;
    if (livingProcess(join(directory, 'owner.pid')) !== undefined) continue;
    await endLeftovers(directory);
    await rm(directory, { recursive: true, force: true });
  }
}
