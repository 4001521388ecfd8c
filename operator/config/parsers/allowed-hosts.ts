import { isIP } from 'node:net';
import { isForbiddenHost } from './addresses.ts';
import { isSubdomain } from './kubernetes-names.ts';
import { invalid, type Parser, valid } from './parser.ts';

const MEND = 'name a host, an IP address or a CIDR such as 10.20.0.0/16';

/** A host name, an IP address or a CIDR that tenant kubeconfigs may point to (design 7, "Addresses"). */
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
        return version !== 0 || named ? valid(address) : invalid('not a host', MEND);
      }
      const bits = Number(prefix);
      const longest = version === 4 ? 32 : 128;
      if (version === 0 || rest.length > 0 || !/^\d{1,3}$/.test(prefix) || bits > longest) {
        return invalid('not a CIDR', MEND);
      }
      return valid(`${address}/${bits}`);
    },
  };
}
