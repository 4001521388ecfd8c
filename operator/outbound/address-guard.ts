import { lookup as resolve, type LookupAddress, type LookupAllOptions } from 'node:dns';
import { BlockList, isIP, isIPv4, isIPv6, type LookupFunction } from 'node:net';

/** IPv4 networks that requests must not reach: link-local, and where clouds serve credentials. */
const REFUSED_IPV4 = [
  ['169.254.0.0', 16],
  ['100.100.100.200', 32],
  ['168.63.129.16', 32],
  ['192.0.0.192', 32],
] as const;

/** The same for IPv6: link-local, and the metadata services of clouds that have an IPv6 one. */
const REFUSED_IPV6 = [
  ['fe80::', 10],
  ['fd00:ec2::254', 128],
  ['fd20:ce::254', 128],
] as const;

/**
 * Prefixes of IPv6 addresses that contain an IPv4 address: compatible, translated, NAT64. 6to4 puts
 * it at the front. A BlockList already compares mapped ones as IPv4.
 */
const EMBEDDING_PREFIXES = ['::', '::ffff:0:', '64:ff9b::'] as const;
const MAPPED_PREFIX = '::ffff:';
const EMBEDDED_OFFSET_BITS = 96;
const SIX_TO_FOUR_OFFSET_BITS = 16;

const refused = refusedNetworks();

/**
 * Why an IP address may not be dialled; undefined if it may. Private and loopback addresses are
 * allowed, because URLs come from administrators. Link-local and cloud metadata addresses never
 * are, in any spelling (docs/explanation/security.md#d-3).
 */
export function addressProblem(address: string): string | undefined {
  const bare = address.replace(/^\[|\]$/g, '').replace(/%.*$/, '');
  if (isIP(bare) === 0) return undefined;
  if (!refused.check(bare, isIPv4(bare) ? 'ipv4' : 'ipv6')) return undefined;
  return `address not allowed: link-local or cloud metadata: "${bare}"`;
}

/** Distinct from network errors, because retrying is useless until the URL changes. */
export class RefusedAddressError extends Error {
  readonly code = 'ERR_REFUSED_ADDRESS';
}

/** Resolves a name like `dns.lookup` with `all`. */
export type AddressLookup = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * A DNS lookup that fails if any address in the answer may not be dialled. The connection uses
 * exactly the checked addresses, so that a name cannot change its answer afterwards.
 */
export function createGuardedLookup(
  lookup: AddressLookup = resolve,
  problemOf: (address: string) => string | undefined = addressProblem,
): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, []);
      const problem = firstProblem(addresses, problemOf);
      if (problem !== undefined) {
        return callback(new RefusedAddressError(`${hostname}: ${problem}`), []);
      }
      if (options.all === true) return callback(null, addresses);
      const [first] = addresses;
      if (first === undefined) return callback(new Error(`${hostname}: no address`), []);
      callback(null, first.address, first.family);
    });
  };
}

function firstProblem(
  addresses: readonly LookupAddress[],
  problemOf: (address: string) => string | undefined,
): string | undefined {
  for (const { address } of addresses) {
    const problem = problemOf(address);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const EMBEDDINGS: ReadonlySet<string> = new Set(
  [MAPPED_PREFIX, ...EMBEDDING_PREFIXES].map((prefix) => groupsOf(`${prefix}0:0`, 6)),
);

/**
 * The IPv4 address inside an IPv6 one: mapped, compatible, translated, NAT64 or 6to4. Undefined if
 * there is none, or if the text is not an IPv6 address.
 */
export function embeddedIpv4(address: string): string | undefined {
  const bare = address.replace(/%.*$/, '');
  if (!isIPv6(bare)) return undefined;
  const groups = groupsOf(bare, 8).split(':');
  const [first, ...rest] = groups;
  const at = EMBEDDINGS.has(groups.slice(0, 6).join(':')) ? 5 : first === '2002' ? 0 : undefined;
  if (at === undefined) return undefined;
  return rest
    .slice(at, at + 2)
    .flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255])
    .join('.');
}

/** The first groups of an IPv6 address, in hexadecimal without leading zeros. */
function groupsOf(address: string, count: number): string {
  // A URL writes every spelling in the same form, without dots.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = '', tail] = canonical.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0');
  return [...before, ...zeros, ...after].slice(0, count).join(':');
}

function refusedNetworks(): BlockList {
  const list = new BlockList();
  for (const [network, bits] of REFUSED_IPV6) list.addSubnet(network, bits, 'ipv6');
  for (const [network, bits] of REFUSED_IPV4) {
    list.addSubnet(network, bits, 'ipv4');
    const hex = asHextets(network);
    for (const prefix of EMBEDDING_PREFIXES) {
      list.addSubnet(`${prefix}${hex}`, EMBEDDED_OFFSET_BITS + bits, 'ipv6');
    }
    list.addSubnet(`2002:${hex}::`, SIX_TO_FOUR_OFFSET_BITS + bits, 'ipv6');
  }
  return list;
}

function asHextets(ipv4: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = ipv4.split('.').map(Number);
  return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
}
