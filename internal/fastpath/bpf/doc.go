// Package bpf holds the programs that run in the kernel, as C in src, and what
// is made of them. Building Venturi needs no compiler for them: the objects are
// committed, and a test makes them again and compares.
package bpf

//go:generate go tool bpf2go -target bpfel -go-package bpf -type ct_request -type counter -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" vxlan src/vxlan.c
//go:generate go tool bpf2go -target bpfel -go-package bpf -no-global-types -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" ipip src/ipip.c
//go:generate go tool bpf2go -target bpfel -go-package bpf -type ct_request -type counter -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" routed src/routed.c
//go:generate go tool bpf2go -target bpfel -go-package bpf -no-global-types -type shadow_record -cflags "-DSHADOW -O2 -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" shadowVxlan src/vxlan.c
//go:generate go tool bpf2go -target bpfel -go-package bpf -no-global-types -cflags "-DSHADOW -O2 -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" shadowIpip src/ipip.c
//go:generate go tool bpf2go -target bpfel -go-package bpf -no-global-types -cflags "-DSHADOW -O2 -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" shadowRouted src/routed.c
//go:generate go tool bpf2go -target bpfel -go-package bpf -type ct_request -type counter -cflags "-DINET6 -O2 -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" routed6 src/routed.c
//go:generate go tool bpf2go -target bpfel -go-package bpf -no-global-types -cflags "-DINET6 -DSHADOW -O2 -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" shadowRouted6 src/routed.c
//go:generate go tool bpf2go -target bpfel -go-package bpf -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" exit src/exit.c
