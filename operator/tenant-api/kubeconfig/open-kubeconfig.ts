import { KubeConfig } from '@kubernetes/client-node';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { Connection } from '../../kubernetes/connection.ts';
import type { Secret } from '../../model/secret.ts';
import { type AddressLookup, createGuardedLookup } from '../../outbound/address-guard.ts';
import { type DialPlan, type DialRule, planDial } from './dial-plan.ts';
import { type ForeignKubeconfig, readForeignKubeconfig } from './read-kubeconfig.ts';

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

export function createOpenKubeconfig(options: {
  /** spec.tenantAPI.allowedHosts in force. */
  readonly allowedHosts: () => readonly string[];
  /** `host:port` of the host cluster's API server. */
  readonly hostApi: string;
  /** As {@link DialRule} has it. */
  readonly externalName: (namespace: string, name: string) => string | undefined;
  readonly now: () => number;
  /** For tests: how names become addresses. */
  readonly lookup?: AddressLookup;
}): OpenKubeconfig {
  const { allowedHosts, hostApi, externalName, now, lookup } = options;
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
    const rule = ruleOf(cluster, { allowedHosts: allowedHosts(), hostApi, externalName });
    const plan = planDial(kubeconfig, rule);
    if (plan.kind === 'refused') return plan;
    return { kind: 'opened', connection: openConnection(kubeconfig, plan, lookup), validUntil };
  };
}

function ruleOf(
  { source, namespace: own, home: namespace = own, name }: TenantCluster,
  host: Pick<Extract<DialRule, { kind: 'tenant' }>, 'allowedHosts' | 'hostApi' | 'externalName'>,
): DialRule {
  // The administrator mounted the file of an external one; anybody else's Secret is the tenant's word.
  if (source === 'external') return { kind: 'administrator' };
  return { kind: 'tenant', namespace, name, ...host };
}

/** What one tenant's API may take up, so that a slow or hostile one costs nothing to the others. */
const LIMITS = {
  connectTimeoutMs: 5_000,
  requestConnections: 2,
  // One for each kind that is watched, and one in reserve while another is being replaced.
  streamConnections: 10,
  // Lists and watches are parsed in another thread (reading/foreign-reader.ts), anything else here.
  responseBytes: 2 * 1024 * 1024,
  parsedBytes: 256 * 1024,
  lineLength: 2 * 1024 * 1024,
} as const;

/**
 * A connection to the server of an accepted kubeconfig. The client library is given values only, never
 * the kubeconfig: there is no program, file, proxy or provider in them. Opens nothing yet.
 */
export function openConnection(
  kubeconfig: ForeignKubeconfig,
  plan: Extract<DialPlan, { kind: 'dial' }>,
  lookup?: AddressLookup,
): Connection {
  const { certificateAuthority, token, client } = kubeconfig;
  const config = new KubeConfig();
  config.loadFromOptions({
    clusters: [
      {
        name: NAME,
        server: plan.server,
        skipTLSVerify: false,
        caData: certificateAuthority && base64(certificateAuthority),
        tlsServerName: plan.tlsServerName,
      },
    ],
    users: [
      {
        name: NAME,
        token: token?.reveal(),
        certData: client && base64(client.certificate),
        keyData: client && base64(client.key.reveal()),
      },
    ],
    contexts: [{ name: NAME, cluster: NAME, user: NAME }],
    currentContext: NAME,
  });
  const guarded = createGuardedLookup(lookup, plan.addressProblem);
  return new Connection(config, { ...LIMITS, lookup: guarded });
}

const NAME = 'tenant';

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
