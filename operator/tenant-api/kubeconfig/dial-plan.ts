import { BlockList, isIP, isIPv4 } from 'node:net';
import { addressProblem, embeddedIpv4 } from '../../outbound/address-guard.ts';
import type { ForeignKubeconfig } from './values.ts';

/** Addresses that a kubeconfig may lead to (docs/explanation/security.md#d-3). */
export type DialRule =
  /**
   * Written by the tenant: the tenant cluster's own Service, or an entry of
   * spec.tenantAPI.allowedHosts.
   */
  | {
      readonly kind: 'tenant';
      readonly namespace: string;
      readonly name: string;
      /** Host names, IP addresses and CIDRs. */
      readonly allowedHosts: readonly string[];
      /** `host:port` of the host cluster's API server, which never belongs to a tenant cluster. */
      readonly hostApi: string;
      /** The name that a Service is an alias of at this moment; undefined for any other Service. */
      readonly externalName: (namespace: string, name: string) => string | undefined;
    }
  /** Written by the administrator: any address but link-local and cloud metadata. */
  | { readonly kind: 'administrator' };

export type DialPlan =
  | {
      readonly kind: 'dial';
      /** The server to dial: `https://<host>[:<port>][<path>]`. */
      readonly server: string;
      /** The name that the certificate must have; absent if it is the host's. */
      readonly tlsServerName?: string;
      /** Returns why a resolved address must not be dialled, or undefined. */
      readonly addressProblem: (address: string) => string | undefined;
    }
  | { readonly kind: 'refused'; readonly reason: string };

const FIELD = 'clusters[0].cluster.server';
const LOCAL_HOSTS = new Set(['localhost', '127.0.0.1', '[::1]']);
const LOCAL_NAME = 'localhost';
const SERVICE_NAME = /\.svc(\.|$)|^[^.]+\.?$/i;
const METADATA_NAMES = /^metadata(\.google\.internal|\.goog)?\.?$/;

/**
 * Decides the server to dial for a kubeconfig. A server of localhost is vCluster's own form: it
 * means the tenant cluster's Service, with a certificate for `localhost`.
 */
export function planDial(kubeconfig: ForeignKubeconfig, rule: DialRule): DialPlan {
  const { server } = kubeconfig;
  const host = server.hostname;
  if (METADATA_NAMES.test(host)) return refused('address not allowed: cloud metadata');
  if (rule.kind === 'administrator') {
    return plan(kubeconfig, server, undefined, addressProblem);
  }
  const allowed = readAllowedHosts(rule.allowedHosts);
  const checkFor =
    (dialled: URL) =>
    (address: string): string | undefined =>
      aliasProblem(dialled, rule, allowed, address) ??
      problemOf(address, dialled, rule.hostApi, allowed.networks);
  const service = serviceOf(server, rule, allowed);
  // With a list of networks, the address decides.
  const alias = allowed.hasNetworks
    ? undefined
    : aliasProblem(service?.url ?? server, rule, allowed);
  if (alias !== undefined) return refused(alias);
  if (service !== undefined) {
    return plan(kubeconfig, service.url, service.certificateName, checkFor(service.url));
  }
  const check = checkFor(server);
  const bare = host.replace(/^\[|\]$/g, '');
  if (isIP(bare) !== 0) {
    const listed = allowed.networks.check(bare, isIPv4(bare) ? 'ipv4' : 'ipv6');
    return listed ? plan(kubeconfig, server, undefined, check) : notListed(rule);
  }
  if (allowed.names.has(host.toLowerCase())) return plan(kubeconfig, server, undefined, check);
  // The address of a name is checked when it is dialled. A Service other than the tenant cluster's
  // own must be listed by name.
  if (!allowed.hasNetworks || SERVICE_NAME.test(host)) return notListed(rule);
  return plan(kubeconfig, server, undefined, (address) =>
    allowed.networks.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')
      ? check(address)
      : `address not allowed: "${host}" leads to "${address}"; list it in spec.tenantAPI.allowedHosts of the MeteringPolicy`,
  );
}

function plan(
  { tlsServerName }: ForeignKubeconfig,
  server: URL,
  certificateName: string | undefined,
  check: (address: string) => string | undefined,
): DialPlan {
  const bare = server.hostname.replace(/^\[|\]$/g, '');
  // The lookup never sees literal addresses, so they are checked here.
  const problem = isIP(bare) === 0 ? undefined : check(bare);
  if (problem !== undefined) return refused(problem);
  const name = tlsServerName ?? certificateName;
  return {
    kind: 'dial',
    server: `${server.origin}${server.pathname.replace(/\/+$/, '')}`,
    tlsServerName: name,
    addressProblem: check,
  };
}

/** The tenant cluster's own Service, if the server means it. */
function serviceOf(
  server: URL,
  { namespace, name }: Extract<DialRule, { kind: 'tenant' }>,
  allowed: AllowedHosts,
): { readonly url: URL; readonly certificateName: string } | undefined {
  const host = server.hostname.toLowerCase();
  const service = `${name}.${namespace}.svc`;
  const listed = allowed.names.has(host);
  if (LOCAL_HOSTS.has(host) && !listed) {
    return { url: at(service, server, ''), certificateName: LOCAL_NAME };
  }
  const forms = [`${name}.${namespace}`, service, `${service}.cluster.local`];
  if (!forms.includes(host)) return undefined;
  return { url: at(service, server, server.port), certificateName: host };
}

/** `name.namespace`, with or without `.svc` and the cluster's domain. */
const SERVICE = /^(?<name>[^.]+)\.(?<namespace>[^.]+)(\.svc(\..*)?)?\.?$/;

/** Returns why an alias Service is refused: whoever may edit it can point it anywhere. */
function aliasProblem(
  { hostname }: URL,
  { externalName }: Extract<DialRule, { kind: 'tenant' }>,
  allowed: AllowedHosts,
  address?: string,
): string | undefined {
  const { name = '', namespace = '' } = SERVICE.exec(hostname.toLowerCase())?.groups ?? {};
  const alias = externalName(namespace, name);
  if (alias === undefined || allowed.names.has(alias)) return undefined;
  const family = address !== undefined && isIPv4(address) ? 'ipv4' : 'ipv6';
  if (address !== undefined && allowed.networks.check(address, family)) return undefined;
  return `address not allowed: the Service is of type ExternalName and leads to "${alias}"; list that in spec.tenantAPI.allowedHosts of the MeteringPolicy`;
}

function at(host: string, server: URL, port: string): URL {
  return new URL(`https://${host}${port === '' ? '' : `:${port}`}${server.pathname}`);
}

interface AllowedHosts {
  /** As written, including single addresses. */
  readonly names: ReadonlySet<string>;
  readonly networks: BlockList;
  readonly hasNetworks: boolean;
}

function readAllowedHosts(entries: readonly string[]): AllowedHosts {
  const networks = new BlockList();
  let hasNetworks = false;
  for (const entry of entries) {
    const [address = '', bits] = entry.split('/');
    if (isIP(address) === 0) continue;
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    hasNetworks = true;
    if (bits === undefined) networks.addAddress(address, family);
    else networks.addSubnet(address, Number(bits), family);
  }
  return { names: new Set(entries), networks, hasNetworks };
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addSubnet('0.0.0.0', 8, 'ipv4');
LOOPBACK.addSubnet('224.0.0.0', 3, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');
LOOPBACK.addAddress('::', 'ipv6');
LOOPBACK.addSubnet('ff00::', 8, 'ipv6');

/**
 * Returns why an address is refused: link-local and metadata always, the host's API server always,
 * loopback unless it is listed.
 */
function problemOf(
  address: string,
  dialled: URL,
  hostApi: string,
  listed: BlockList,
): string | undefined {
  const problem = addressProblem(address);
  if (problem !== undefined) return problem;
  // An IPv4 address in IPv6 form leads to the same machine.
  const meant = embeddedIpv4(address) ?? address;
  const family = isIPv4(meant) ? 'ipv4' : 'ipv6';
  if (LOOPBACK.check(meant, family) && !listed.check(meant, family)) {
    return `address not allowed: the operator’s own machine, or no machine: "${address}"`;
  }
  const shown = family === 'ipv6' ? `[${meant}]` : meant;
  if (`${shown}:${dialled.port || HTTPS_PORT}` === hostApi) {
    return `address not allowed: the host cluster’s API server: "${address}"`;
  }
  return undefined;
}

const HTTPS_PORT = '443';

function notListed({ namespace, name }: Extract<DialRule, { kind: 'tenant' }>): DialPlan {
  return refused(
    `neither the tenant cluster’s own Service (https://${name}.${namespace}.svc) nor listed in spec.tenantAPI.allowedHosts of the MeteringPolicy`,
  );
}

function refused(why: string): DialPlan {
  return { kind: 'refused', reason: `${FIELD}: ${why}` };
}
