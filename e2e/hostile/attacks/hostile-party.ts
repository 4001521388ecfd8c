import { join } from 'node:path';
import type { Needle } from '../observer/secrets.ts';
import { startSideProcess } from '../side-process.ts';
import type { RunPlan } from './attack.ts';
import type { CreditMeans } from './credits.ts';

export interface PartyArguments {
  /** For serving APIs of tenant clusters, PEM. */
  readonly cert: string;
  readonly key: string;
  /** What billing systems are asked with, and sign with. */
  readonly vendorKeys: Readonly<Record<string, string>>;
  /** Of the operator's user at the broker. */
  readonly brokerPassword: string;
  readonly webhookSecrets: Readonly<Record<string, string>>;
  readonly ingestToken: string;
  /** Of another sender, for a tenant of its own. */
  readonly rivalIngestToken: string;
  /** What one of them holds as a tenant of the operator, and a shop that sells to it. */
  readonly tenant: Pick<CreditMeans, 'tenant' | 'others' | 'tokens' | 'shopToken'>;
  /** What must not be seen, but for what belongs to whom it is sent to. */
  readonly needles: readonly Needle[];
  /** The texts of other tenants that strangers must not be told. */
  readonly private: readonly Needle[];
}

export interface PartyOrder {
  readonly id: number;
  /** Where the operator listens; from the start of it on. */
  readonly target?: { readonly port: number; readonly probePort: number };
  readonly begin?: readonly RunPlan[];
  /** Runs whose attacks are over. */
  readonly end?: readonly number[];
}

export interface PartyReport {
  /** What was seen since the last report that must not be: what, and where. */
  readonly leaks: readonly string[];
  /** Money that is not what it was said to be, since the last report. */
  readonly misbilled: readonly string[];
  /** Requests of the operator to APIs of hostile tenant clusters so far. */
  readonly requests: number;
  /** Answers of the operator to peers so far. */
  readonly answers: number;
}

/** Everybody who wishes the operator ill, in a process of their own. */
export interface HostileParty {
  /** The port of the APIs of hostile tenant clusters, each below `/<run>`. */
  readonly apiPort: number;
  readonly vendorUrls: Readonly<Record<string, string>>;
  /** A broker of Kafka, `host:port`. */
  readonly broker: string;
  order(order: Omit<PartyOrder, 'id'>): Promise<PartyReport>;
  stop(): void;
}

export async function startHostileParty(given: PartyArguments): Promise<HostileParty> {
  const side = await startSideProcess(join(import.meta.dirname, 'process.ts'), given);
  const { apiPort, vendorUrls, broker } = side.ready as {
    readonly apiPort: number;
    readonly vendorUrls: Readonly<Record<string, string>>;
    readonly broker: string;
  };
  return {
    apiPort,
    vendorUrls,
    broker,
    order: async (order) => (await side.order(order)) as PartyReport,
    stop: () => side.stop(),
  };
}
