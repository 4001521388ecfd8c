import { BlockList, isIP } from 'node:net';

/**
 * Addresses that no URL of ours may name: link-local ones and the metadata services of clouds, which
 * hand out credentials to whoever asks (design 7, "Addresses"; security D.3). Private and loopback
 * addresses are fine, because URLs come from administrators.
 */
const FORBIDDEN = new BlockList();
FORBIDDEN.addSubnet('169.254.0.0', 16, 'ipv4');
FORBIDDEN.addAddress('100.100.100.200', 'ipv4');
FORBIDDEN.addAddress('168.63.129.16', 'ipv4');
FORBIDDEN.addAddress('192.0.0.192', 'ipv4');
FORBIDDEN.addSubnet('fe80::', 10, 'ipv6');
FORBIDDEN.addAddress('fd00:ec2::254', 'ipv6');
FORBIDDEN.addAddress('fd20:ce::254', 'ipv6');
FORBIDDEN.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6');
FORBIDDEN.addSubnet('::a9fe:0', 112, 'ipv6');

const METADATA_HOSTS = new Set(['metadata', 'metadata.google.internal', 'metadata.goog']);

/** Whether a host name or address (an IPv6 one with or without brackets) is link-local or a cloud's metadata service. */
export function isForbiddenHost(host: string): boolean {
  const name = host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
  if (METADATA_HOSTS.has(name)) return true;
  const version = isIP(name);
  if (version === 4) return FORBIDDEN.check(name, 'ipv4');
  // The list looks through IPv4 addresses that are mapped into IPv6 by itself.
  return version === 6 && FORBIDDEN.check(name, 'ipv6');
}
