import { BlockList, isIP } from 'node:net';
import { isSubdomain } from './kubernetes-names.ts';
import { invalid, type Parser, valid } from './parser.ts';

/**
 * Addresses that no URL may name: link-local ones, and the metadata services of clouds, which give
 * credentials to every caller (docs/explanation/security.md#d-3). Private and loopback addresses
 * are allowed, because administrators write the URLs.
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

/**
 * Returns true when a host name or address is link-local or a cloud's metadata service. IPv6 with
 * or without brackets.
 */
export function isForbiddenHost(host: string): boolean {
  const name = host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
  if (METADATA_HOSTS.has(name)) return true;
  const version = isIP(name);
  if (version === 4) return FORBIDDEN.check(name, 'ipv4');
  // The list also matches IPv4 addresses mapped into IPv6.
  return version === 6 && FORBIDDEN.check(name, 'ipv6');
}

const FIX_ALLOWED = 'name a host, an IP address or a CIDR such as 10.20.0.0/16';

/**
 * A host name, an IP address or a CIDR that tenant kubeconfigs may point to
 * (docs/how-to/private-nodes.md#what-a-kubeconfig-may-say).
 */
export function allowedHost(): Parser<string> {
  return {
    accepts: 'a host, an IP address or a CIDR',
    parse(text) {
      const [address = '', prefix, ...rest] = text.toLowerCase().split('/');
      if (isForbiddenHost(address)) {
        return invalid('a link-local or cloud metadata address', 'leave it out');
      }
      const version = isIP(address);
      if (prefix === undefined) {
        const named = isSubdomain(address) && !/^[\d.]+$/.test(address);
        return version !== 0 || named ? valid(address) : invalid('not a host', FIX_ALLOWED);
      }
      const bits = Number(prefix);
      const longest = version === 4 ? 32 : 128;
      if (version === 0 || rest.length > 0 || !/^\d{1,3}$/.test(prefix) || bits > longest) {
        return invalid('not a CIDR', FIX_ALLOWED);
      }
      return valid(`${address}/${bits}`);
    },
  };
}

/** `host` is `''` for all addresses of the machine. With port 0 the system chooses one. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

const LISTEN_FORM = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:]*)):(\d{1,5})$/;
const FIX_LISTEN = 'write :8080, 127.0.0.1:8080 or [::1]:8080';

/** `host:port`; the host is optional. */
export function listenAddress(): Parser<ListenAddress> {
  return {
    accepts: '`:port` or `host:port`',
    parse(text) {
      const match = LISTEN_FORM.exec(text);
      if (match === null) return invalid('not a listen address', FIX_LISTEN);
      const [, bracketed, plain = '', digits = ''] = match;
      const port = Number(digits);
      if (port > 65_535) return invalid('not a port', 'use a port of at most 65535');
      if (bracketed !== undefined) {
        if (isIP(bracketed) !== 6) return invalid('not an IPv6 address', FIX_LISTEN);
        return valid({ host: bracketed, port });
      }
      if (plain !== '' && isIP(plain) !== 4 && (!isSubdomain(plain) || /^[\d.]+$/.test(plain))) {
        return invalid('not a host', FIX_LISTEN);
      }
      return valid({ host: plain, port });
    },
  };
}
