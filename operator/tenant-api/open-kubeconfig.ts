import type { Secret } from '../model/secret.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { AddressLookup } from '../outbound/address-guard.ts';
import { type DialRule, planDial } from './kubeconfig/dial-plan.ts';
import { openConnection } from './kubeconfig/open-connection.ts';
import { readForeignKubeconfig } from './kubeconfig/read-kubeconfig.ts';

export type OpenedKubeconfig =
  | {
      readonly kind: 'opened';
      readonly connection: Connection;
      /** When the credential ends, milliseconds since the epoch. */
      readonly validUntil: number | undefined;
    }
  /** Names the offending field, and quotes nothing of the kubeconfig but addresses. */
  | { readonly kind: 'refused'; readonly reason: string };

/** Makes a connection out of a kubeconfig that somebody else wrote, if it may be made. Dials nothing yet. */
export type OpenKubeconfig = (text: Secret, cluster: TenantCluster) => OpenedKubeconfig;

export interface OpenKubeconfigOptions {
  /** In force at the moment. */
  readonly allowedHosts: () => readonly string[];
  /** `host:port` of the host cluster's API server. */
  readonly hostApi: string;
  readonly now: () => number;
  /** For tests: how names become addresses. */
  readonly lookup?: AddressLookup;
}

export function createOpenKubeconfig(options: OpenKubeconfigOptions): OpenKubeconfig {
  const { allowedHosts, hostApi, now, lookup } = options;
  return (text, cluster) => {
    const read = readForeignKubeconfig(text.reveal());
    if (read.kind === 'refused') return read;
    const { kubeconfig } = read;
    const { validUntil } = kubeconfig;
    if (validUntil !== undefined && validUntil <= now()) {
      const ended = new Date(validUntil).toISOString();
      return {
        kind: 'refused',
        reason: `users[0].user: the credential ended at ${ended}; renew it`,
      };
    }
    const plan = planDial(kubeconfig, ruleOf(cluster, allowedHosts(), hostApi));
    if (plan.kind === 'refused') return plan;
    return { kind: 'opened', connection: openConnection(kubeconfig, plan, lookup), validUntil };
  };
}

function ruleOf(
  { source, namespace, name }: TenantCluster,
  allowedHosts: readonly string[],
  hostApi: string,
): DialRule {
  // The administrator mounted the file of an external one; anybody else's Secret is the tenant's word.
  if (source === 'external') return { kind: 'administrator' };
  return { kind: 'tenant', namespace, name, allowedHosts, hostApi };
}
