import type { Settings, SettingsStore } from '../settings/settings.ts';
import type { WatchMeans } from '../kubernetes/reflector-options.ts';
import { createSource } from '../kubernetes/namespaced-source.ts';
import { preferServedVersion } from '../kubernetes/served-version.ts';
import type { Projection, Source, SourceHealth } from '../kubernetes/source.ts';
import {
  type MachineRecord,
  projectBareMetalHost,
  projectMachine,
  projectNodeClaim,
} from '../metering/timelines/machine-record.ts';
import type { NodeView } from '../metering/timelines/node.ts';
import { MachineRecords } from '../tenant-api/machine-records.ts';
import type { Component } from './components.ts';
import { whenWanted } from './when-wanted.ts';

interface MachineRecordWatchOptions extends WatchMeans {
  readonly settings: SettingsStore;
  /** Empty means all. */
  readonly watchNamespaces: readonly string[];
  readonly hostNode: (name: string) => NodeView | undefined;
}

interface RecordKind {
  readonly group: string;
  readonly plural: string;
  /** The preferred version first. */
  readonly versions: readonly [string, ...string[]];
  readonly clusterScoped?: true;
  readonly project: Projection<MachineRecord>;
}

const KINDS: readonly RecordKind[] = [
  {
    group: 'karpenter.sh',
    plural: 'nodeclaims',
    versions: ['v1', 'v1beta1'],
    clusterScoped: true,
    project: projectNodeClaim,
  },
  {
    group: 'cluster.x-k8s.io',
    plural: 'machines',
    versions: ['v1beta2', 'v1beta1'],
    project: projectMachine,
  },
  {
    group: 'metal3.io',
    plural: 'baremetalhosts',
    versions: ['v1alpha1'],
    project: projectBareMetalHost,
  },
];

/**
 * Returns the host cluster's records of machines, and the component that watches them. The watches
 * start when the first tenant cluster trusts the provider about its nodes
 * (docs/explanation/nodes.md#records-of-machines). A kind that is not served, or forbidden, is
 * logged once and blocks nothing.
 */
export function createMachineRecordWatch(options: MachineRecordWatchOptions): {
  readonly records: MachineRecords;
  readonly component: Component;
} {
  const { settings, hostNode, logger } = options;
  const records = new MachineRecords({
    pending: () =>
      isWanted(settings.current()) && sources.some((source) => !isKnown(source.health())),
    hostNode,
    logger,
  });
  const sources = KINDS.map((kind) => sourceOf(kind, records, options));
  const run = async (signal: AbortSignal): Promise<void> => {
    if (!(await whenWanted(settings, isWanted, signal))) return;
    await Promise.all(sources.map((source) => source.run(signal)));
  };
  return { records, component: { name: 'watches of machine records', run } };
}

function sourceOf(
  { group, plural, versions, clusterScoped, project }: RecordKind,
  records: MachineRecords,
  options: MachineRecordWatchOptions,
): Source<MachineRecord> {
  const { connection, watchNamespaces, clock, random, logger } = options;
  return createSource({
    connection: preferServedVersion({ connection, group, versions }),
    resource: { group, version: versions[0], plural },
    namespaces: clusterScoped ? [] : watchNamespaces,
    project,
    handlers: [records.handler],
    clock,
    random,
    logger,
  });
}

/**
 * Returns whether the records of a kind are known. A failing watch keeps the objects of an earlier
 * list; a forbidden kind never has any.
 */
function isKnown({ state, freshAt, reason }: SourceHealth): boolean {
  if (state === 'failing') return freshAt > 0 || reason?.startsWith('HTTP 403') === true;
  return state !== 'starting';
}

function isWanted({ metering, overrides }: Settings): boolean {
  return [metering, ...overrides.map((override) => override.metering)].some(
    (one) => one?.privateNodeTrust === 'provider',
  );
}
