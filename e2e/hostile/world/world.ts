import { join } from 'node:path';
import { startSideProcess } from '../side-process.ts';
import type { Put } from './honest-estate.ts';

export interface WorldArguments {
  readonly hostToken: string;
  /** Names of honest tenant clusters with an API of their own, served below `/<name>`. */
  readonly own: readonly string[];
  readonly ownTokens: Readonly<Record<string, string>>;
  /** For serving those, PEM. */
  readonly cert: string;
  readonly key: string;
  /** Where delivered events go, one line each. */
  readonly received: string;
  readonly webhookSecret: string;
}

export interface WorldPorts {
  readonly host: number;
  readonly own: number;
  /** The address that bills are delivered to. */
  readonly receiver: string;
}

export interface WorldOrder {
  readonly id: number;
  readonly puts?: readonly Put[];
  /** As clients send them: who dates objects, and gives them their uid, is the API server. */
  readonly fromClients?: readonly Put[];
  /** Paths of single objects of the host. */
  readonly deletions?: readonly string[];
  /** Namespaces of the host, with everything in them. */
  readonly namespaces?: readonly string[];
}

export interface WorldReport {
  /** What the operator has written into the host's API since the last order: path and body. */
  readonly written: readonly string[];
  /** Requests that the host's API has served so far. */
  readonly requests: number;
}

/** The trustworthy surroundings of the operator. */
export interface World {
  readonly ports: WorldPorts;
  order(order: Omit<WorldOrder, 'id'>): Promise<WorldReport>;
  stop(): void;
}

export async function startWorld(given: WorldArguments): Promise<World> {
  const side = await startSideProcess(join(import.meta.dirname, 'process.ts'), given);
  const { ports } = side.ready as { readonly ports: WorldPorts };
  return {
    ports,
    order: async (order) => (await side.order(order)) as WorldReport,
    stop: () => side.stop(),
  };
}
