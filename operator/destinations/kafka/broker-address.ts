import { isIP } from 'node:net';
import { isForbiddenHost } from '../../settings/parsers/hosts.ts';
import { isSubdomain } from '../../settings/parsers/kubernetes-names.ts';
import { invalid, type Parser, valid } from '../../settings/parsers/parser.ts';

export interface BrokerAddress {
  /** A name or an IP address, IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
}

const FORM = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:/@\s]+)):(\d{1,5})$/;
const FIX = 'write it as in kafka-0.example.com:9093';

/** `host:port` of a broker (docs/how-to/destinations/kafka.md#what-you-do-at-the-cluster). */
export function broker(): Parser<BrokerAddress> {
  return {
    accepts: '`host:port`',
    parse(text) {
      const [, bracketed, plain = '', digits = ''] = FORM.exec(text) ?? [];
      const host = (bracketed ?? plain).toLowerCase();
      const port = Number(digits);
      const isAddress = isIP(host) === (bracketed === undefined ? 4 : 6);
      const isName = bracketed === undefined && isSubdomain(host) && !/^[\d.]+$/.test(host);
      if (!isAddress && !isName) return invalid('not a broker', FIX);
      if (port < 1 || port > 65_535) return invalid('not a port', 'use a port of 1 to 65535');
      if (isForbiddenHost(host)) {
        return invalid('a link-local or cloud metadata address', 'name the broker itself');
      }
      return valid({ host, port });
    },
  };
}
