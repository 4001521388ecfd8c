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
      /** End of the credential, milliseconds since the epoch. */
      readonly validUntil: number | undefined;
    }
  /** The reason names the offending field. It quotes only addresses of the kubeconfig. */
  | { readonly kind: 'refused'; readonly reason: string };

/** Makes a connection from a foreign author's kubeconfig, if allowed. Dials nothing yet. */
export type OpenKubeconfig = (text: Secret, cluster: TenantCluster) => OpenedKubeconfig;

export function createOpenKubeconfig(options: {
  /** spec.tenantAPI.allowedHosts in force. */
  readonly allowedHosts: () => readonly string[];
  /** `host:port` of the host cluster's API server. */
  readonly hostApi: string;
  /** See {@link DialRule}. */
  readonly externalName: (namespace: string, name: string) => string | undefined;
  readonly now: () => number;
  /** For tests: resolves names to addresses. */
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
  // The administrator mounted the file of an external one. The tenant may have written any other
  // Secret.
  if (source === 'external') return { kind: 'administrator' };
  return { kind: 'tenant', namespace, name, ...host };
}

/** Limits of one tenant's API, so that a slow or hostile one cannot affect the others. */
const LIMITS = {
  connectTimeoutMs: 5_000,
  requestConnections: 2,
  // One for each watched kind, and one spare while another is replaced.
  streamConnections: 10,
  // Another thread parses lists and watches (reading/foreign-reader.ts). All other answers are
  // parsed here.
  responseBytes: 2 * 1024 * 1024,
  parsedBytes: 256 * 1024,
  lineLength: 2 * 1024 * 1024,
} as const;

/**
 * Returns a connection to the server of an accepted kubeconfig. The client library receives only
 * values, never the kubeconfig, so no program, file, proxy or provider can be in them. Dials
 * nothing yet.
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
