import { join } from 'node:path';
import { RUN_DIRECTORY, type RunFiles, runFiles } from '../local/run-directory.ts';

/** The clusters of `make run-fleet`, and the processes of its hub. */
export const CLUSTERS = [
  { name: 'berlin', region: 'eu-central' },
  { name: 'paris', region: 'eu-west' },
] as const;
export const HUBS = ['hub-1', 'hub-2'] as const;

/** Where `make run-fleet` keeps what it saw; `make clean` removes it. */
export interface FleetFiles
  extends Pick<
    RunFiles,
    'directory' | 'apiToken' | 'received' | 'receiverPort' | 'lago' | 'lagoPort' | 'runPid'
  > {
  /** The primary and its standbys, in the order in which they were started. */
  readonly postgresPids: readonly string[];
  /** Of a cluster or of a process of the hub. */
  of(name: string): RunFiles;
}

const SERVERS = 3;

export function fleetFiles(directory: string = join(RUN_DIRECTORY, 'fleet')): FleetFiles {
  return {
    ...runFiles(directory),
    postgresPids: Array.from({ length: SERVERS }, (_, index) =>
      join(directory, `postgres-${index + 1}.pid`),
    ),
    of: (name) => runFiles(join(directory, name)),
  };
}
