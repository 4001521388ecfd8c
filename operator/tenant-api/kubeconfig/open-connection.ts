import { KubeConfig } from '@kubernetes/client-node';
import { type Connection, createConnection } from '../../kubernetes/connection.ts';
import { type AddressLookup, createGuardedLookup } from '../../outbound/address-guard.ts';
import type { DialPlan } from './dial-plan.ts';
import type { ForeignKubeconfig } from './foreign-kubeconfig.ts';

/** What one tenant's API may take up, so that a slow or hostile one costs nothing to the others. */
const LIMITS = {
  connectTimeoutMs: 5_000,
  requestConnections: 2,
  // One for each kind that is watched, and one in reserve while another is being replaced.
  streamConnections: 10,
  // A page of 500 pods is about 2 MB.
  responseBytes: 8 * 1024 * 1024,
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
        ...(certificateAuthority === undefined ? {} : { caData: base64(certificateAuthority) }),
        ...(plan.tlsServerName === undefined ? {} : { tlsServerName: plan.tlsServerName }),
      },
    ],
    users: [
      {
        name: NAME,
        ...(token === undefined ? {} : { token: token.reveal() }),
        ...(client === undefined
          ? {}
          : { certData: base64(client.certificate), keyData: base64(client.key.reveal()) }),
      },
    ],
    contexts: [{ name: NAME, cluster: NAME, user: NAME }],
    currentContext: NAME,
  });
  return createConnection({
    kubeConfig: config,
    limits: { ...LIMITS, lookup: createGuardedLookup(lookup, plan.addressProblem) },
  });
}

const NAME = 'tenant';

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
