import { lookup as resolve, type LookupAddress, type LookupAllOptions } from 'node:dns';
import { BlockList, isIP, isIPv4, type LookupFunction } from 'node:net';

/** IPv4 networks that nothing outside may be asked at: link-local, and where clouds serve credentials. */
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

/** Prefixes under which an IPv4 address travels as IPv6: compatible, NAT64. 6to4 puts it at the front. */
const EMBEDDING_PREFIXES = ['::', '64:ff9b::'] as const;
const EMBEDDED_OFFSET_BITS = 96;
const SIX_TO_FOUR_OFFSET_BITS = 16;

const refused = refusedNetworks();

/**
 * Why an IP address may not be dialled; undefined when it may. Private and loopback addresses are
 * fine, since URLs come from administrators; link-local and cloud metadata addresses never are,
 * in any spelling (docs/security.md#d-3).
 */
export function addressProblem(address: string): string | undefined {
  const bare = address.replace(/^\[|\]$/g, '').replace(/%.*$/, '');
  if (isIP(bare) === 0) return undefined;
  if (!refused.check(bare, isIPv4(bare) ? 'ipv4' : 'ipv6')) return undefined;
  return `address not allowed: link-local or cloud metadata: "${bare}"`;
}

/** Told apart from network errors, since trying again is useless until the URL changes. */
export class RefusedAddressError extends Error {
  readonly code = 'ERR_REFUSED_ADDRESS';
}

/** How a name becomes addresses: `dns.lookup` asked for all of them. */
export type AddressLookup = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * A DNS lookup that fails when any answer is an address that may not be dialled. The connection is
 * made to the very addresses that were checked, so a name cannot answer differently afterwards.
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

/** IPv4-mapped addresses need no entry of their own: a BlockList compares them as IPv4. */
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
